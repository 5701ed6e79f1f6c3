//! The hub's audit log: opens it, and writes the rest of it at the end.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use fairlead_api::{Code, Failure, HubUrl};
use fairlead_audit::{AuditConfig, AuditLog, AuditWriter, JournalSettings, Sinks};
use fairlead_client::files;
use fairlead_runtime::Process;

use super::settings::Settings;

/// Place of the writer, which outlives all requests.
pub(crate) type AuditSlot = Arc<Mutex<Option<AuditWriter>>>;

/// Folder of the log.
pub(crate) fn dir(settings: &Settings) -> PathBuf {
    settings.data.join("audit")
}

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
    let config = read_config(settings)?;
    let mut journal = JournalSettings {
        keep: settings.audit_keep,
        ..JournalSettings::of(dir(settings), url.to_string())
    };
    config.apply(&mut journal);
    let sinks = Sinks::open(&config, &url.to_string());
    let sinks = sinks.map_err(|mistake| mistake_in(settings, &mistake))?;
    let place = journal.dir.display().to_string();
    let writer = AuditLog::open(journal, config.on_full()).map_err(|error| {
        Failure::because(
            Code::BadConfig,
            format_args!("audit log in {place}: {error}"),
        )
    })?;
    let log = writer.log();
    log.register(process.registry())
        .map_err(|error| Failure::because(Code::Internal, error))?;
    let recorder = config.recorder(log.dir());
    let recorder = recorder.map_err(|error| mistake_in(settings, &error.to_string()))?;
    if let Some(recorder) = recorder {
        recorder.start_retention(&log, process);
        log.record_sessions(recorder);
    }
    sinks.start(&log, process);
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer);
    Ok(log)
}

/// Reads the configuration file; a mistake in it ends the start of the hub.
fn read_config(settings: &Settings) -> Result<AuditConfig, Failure> {
    let Some(file) = &settings.audit_config else {
        return Ok(AuditConfig::default());
    };
    let text = files::read(file)?;
    AuditConfig::parse(&text).map_err(|mistake| mistake_in(settings, &mistake))
}

fn mistake_in(settings: &Settings, mistake: &str) -> Failure {
    let file = settings.audit_config.as_deref().unwrap_or(Path::new(""));
    Failure::because(
        Code::BadConfig,
        format_args!("{}: {mistake}", file.display()),
    )
}

/// Writes all queued events.
pub(super) fn finish(slot: &AuditSlot) {
    let writer = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(writer) = writer {
        writer.finish();
    }
}
