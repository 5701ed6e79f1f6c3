//! The hub's audit log: opens it, and writes the rest of it at the end.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fairlead_api::{Code, Failure, HubUrl};
use fairlead_audit::{AuditLog, AuditWriter, JournalSettings, OnFull};
use fairlead_runtime::Process;

use super::settings::Settings;

/// Default of `--audit-keep`.
pub(super) const AUDIT_KEEP: Duration = Duration::from_secs(365 * 24 * 3600);

/// Place of the writer, which outlives all requests.
pub(crate) type AuditSlot = Arc<Mutex<Option<AuditWriter>>>;

/// Opens the log in the data folder.
///
/// # Errors
/// `FL-4101` if its folder cannot be used.
pub(super) fn open(
    settings: &Settings,
    url: &HubUrl,
    process: &Process,
    slot: &AuditSlot,
) -> Result<AuditLog, Failure> {
    let journal = JournalSettings {
        keep: settings.audit_keep,
        ..JournalSettings::of(settings.data.join("audit"), url.to_string())
    };
    let dir = journal.dir.display().to_string();
    let writer = AuditLog::open(journal, OnFull::Refuse).map_err(|error| {
        Failure::because(Code::BadConfig, format_args!("audit log in {dir}: {error}"))
    })?;
    let log = writer.log();
    log.register(process.registry())
        .map_err(|error| Failure::because(Code::Internal, error))?;
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
    Ok(log)
}

/// Writes all queued events.
pub(super) fn finish(slot: &AuditSlot) {
    let writer = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(writer) = writer {
        writer.finish();
    }
}
