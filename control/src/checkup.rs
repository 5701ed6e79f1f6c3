//! Checks of a hub's data by `fairlead doctor --hub`, on the hub's machine. The hub may run; nothing changes.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use fairlead_api::{
    Code, Failure,
    checkup::{CheckSection, CheckedStage},
};
use fairlead_certs::{AgentKey, Authority};
use fairlead_store::{Clock, Place, Store};
use time::OffsetDateTime;
use tokio::time::Instant;

use crate::{backup::HubData, files::KEYS};

/// Free space below which a folder is reported: in bytes, and as a part of its disk.
const MIN_FREE_BYTES: u64 = 256 << 20;
const MIN_FREE_PART: u64 = 50;
/// Difference of the clocks of hub and store from which certificates and leases suffer, in milliseconds.
const MAX_CLOCK_OFFSET_MILLIS: u64 = 5_000;
/// Time to sign a certificate above which a fleet that returns waits.
const MAX_SIGNING_TIME: Duration = Duration::from_secs(1);

impl HubData {
    /// Checks store, clock, free space and signing. `audit`: folder of the audit log.
    pub async fn check_up(&self, audit: &Path) -> CheckSection {
        let mut section = CheckSection::new(format!("data in {}", self.data_dir.display()));
        self.check_store(&mut section).await;
        for (stage, folder) in [("data-space", &*self.data_dir), ("audit-space", audit)] {
            let since = Instant::now();
            let space = check_space(folder);
            section.add(stage, since.elapsed(), space);
        }
        let since = Instant::now();
        let signed = sign(&self.data_dir);
        section.add("signing", since.elapsed(), signed);
        section
    }

    /// Opens the store at exactly this program's version, and reads its clock.
    async fn check_store(&self, section: &mut CheckSection) {
        let (place, clock) = (self.place(), Clock::system());
        let since = Instant::now();
        let store = match Store::open_as_it_is(&place, clock).await {
            Ok(store) => store,
            Err(failure) => {
                section.add("store", since.elapsed(), Err(failure));
                section.stages.push(CheckedStage::not_tried("clock"));
                return;
            }
        };
        let kind = match &place {
            Place::File(_) => "SQLite",
            Place::Postgres(_) => "PostgreSQL",
        };
        let clusters = store.view().clusters().count();
        let opened = format!("{kind} with the schema of this version, {clusters} clusters");
        section.add("store", since.elapsed(), Ok(opened));
        let since = Instant::now();
        let offset = store.clock_offset().await;
        store.close().await;
        match offset {
            Ok(None) => {
                let detail = "a file has no clock";
                section
                    .stages
                    .push(CheckedStage::not_needed("clock", detail));
            }
            Ok(Some(millis)) => section.add("clock", since.elapsed(), check_clock(millis)),
            Err(error) => section.add("clock", since.elapsed(), Err(error.into())),
        }
    }
}

fn check_clock(offset_millis: i64) -> Result<String, Failure> {
    let text = format!("the clock of the store is {offset_millis} ms ahead of this machine's");
    match offset_millis.unsigned_abs() > MAX_CLOCK_OFFSET_MILLIS {
        true => Err(Failure::because(Code::DialClock, text)),
        false => Ok(text),
    }
}

fn check_space(folder: &Path) -> Result<String, Failure> {
    // The log's folder exists from the first start on.
    let existing = folder.ancestors().find(|it| it.exists());
    let place = existing.map_or_else(|| folder.to_owned(), PathBuf::from);
    let found = rustix::fs::statvfs(&place).map_err(|error| {
        let detail = format_args!("{}: {error}", place.display());
        Failure::because(Code::DataDir, detail)
    })?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let total = found.f_blocks.saturating_mul(found.f_frsize);
    let shown = format!(
        "{} MiB of {} MiB are free in {}",
        free >> 20,
        total >> 20,
        place.display()
    );
    match free < MIN_FREE_BYTES || free < total / MIN_FREE_PART {
        true => Err(Failure::because(Code::HubSpaceLow, shown)),
        false => Ok(shown),
    }
}

/// Signs a certificate that nobody gets, for the cluster `c-doctor`.
fn sign(data_dir: &Path) -> Result<String, Failure> {
    let missing = KEYS.iter().find(|name| !data_dir.join(name).is_file());
    if let Some(name) = missing {
        let path = data_dir.join(name);
        let detail = format_args!("{} is missing", path.display());
        return Err(Failure::because(Code::DataDir, detail));
    }
    let authority = Authority::open_or_create(data_dir)?;
    let csr = AgentKey::generate()?.csr()?;
    let internal = |error| Failure::because(Code::Internal, error);
    let (tenant, cluster) = (
        "t-doctor".parse().map_err(internal)?,
        "c-doctor".parse().map_err(internal)?,
    );
    let since = Instant::now();
    authority.sign_agent(&csr, &tenant, &cluster, OffsetDateTime::now_utc())?;
    let took = since.elapsed();
    let shown = format!("a certificate takes {} ms", took.as_millis());
    match took > MAX_SIGNING_TIME {
        true => Err(Failure::because(Code::HubSigningSlow, shown)),
        false => Ok(shown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn missing_data_is_named_and_nothing_is_created() {
        let folder = tempfile::tempdir().unwrap();
        let data = HubData {
            data_dir: folder.path().join("none"),
            store: None,
        };
        let section = data.check_up(&data.data_dir.join("audit")).await;
        let results: Vec<_> = section
            .stages
            .iter()
            .map(|it| (it.stage, it.result.as_str()))
            .collect();
        assert_eq!(
            results,
            [
                ("store", "failed"),
                ("clock", "not tried"),
                ("data-space", "ok"),
                ("audit-space", "ok"),
                ("signing", "failed"),
            ]
        );
        assert!(!data.data_dir.exists());
    }

    #[test]
    fn clock_of_the_store_may_differ_by_five_seconds() {
        assert!(check_clock(-5_000).is_ok());
        assert_eq!(check_clock(5_001).unwrap_err().code, Code::DialClock);
    }
}
