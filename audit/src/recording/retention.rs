//! Retention of recordings: by age and by total size, oldest first, in bounded steps.

use std::{
    collections::BTreeSet,
    fs, io,
    path::Path,
    sync::{MutexGuard, PoisonError},
    time::Duration,
};

use fairlead_runtime::Process;
use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, PrimitiveDateTime, macros::format_description};
use tokio::{task::spawn_blocking, time::sleep};
use tracing::warn;

use crate::{
    config::RecordingConfig, event::timestamp, log::AuditLog, policy::Recorder, segment::replace,
};

const SUFFIX: &str = ".cast.age";
/// Note of the policy beside the recordings, for `fairlead recording list`.
const POLICY_FILE: &str = "retention.json";
const REMOVAL_INTERVAL: Duration = Duration::from_secs(60);
/// Recordings removed per step; the rest follows in the next one.
const MAX_REMOVALS: usize = 500;

/// A recording on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordingFile {
    /// File name.
    pub name: String,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Begin of the session in UTC.
    pub began: String,
    /// Earliest removal because of the age; missing without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

/// Limits of a policy, as noted beside the recordings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordingLimits {
    pub(crate) keep_seconds: Option<u64>,
    pub(crate) max_bytes: Option<u64>,
}

/// Recordings in a folder, oldest first.
///
/// # Errors
/// The folder cannot be read.
pub fn recordings(dir: &Path) -> io::Result<Vec<RecordingFile>> {
    let limits = fs::read(dir.join(POLICY_FILE)).unwrap_or_default();
    let limits: RecordingLimits = serde_json::from_slice(&limits).unwrap_or_default();
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(began) = began(&name) else { continue };
        let bytes = match entry.metadata() {
            Ok(metadata) => metadata.len(),
            // Removed in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let expires = limits
            .keep_seconds
            .and_then(|keep| began.checked_add(time::Duration::seconds(i64::try_from(keep).ok()?)));
        found.push(RecordingFile {
            name,
            bytes,
            began: timestamp(began),
            expires: expires.map(timestamp),
        });
    }
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Time at the begin of the name of a recording.
fn began(name: &str) -> Option<OffsetDateTime> {
    let at = name.strip_suffix(SUFFIX)?.split('_').next()?;
    let format = format_description!("[year][month][day]T[hour][minute][second]Z");
    let at = PrimitiveDateTime::parse(at, format).ok()?;
    Some(at.assume_utc())
}

/// Name of a running recording, which the retention spares until its end.
pub(super) struct RunningFile {
    recorder: Recorder,
    name: String,
}

impl RunningFile {
    pub(super) fn of(recorder: &Recorder, name: &str) -> Self {
        running(recorder).insert(name.to_owned());
        RunningFile {
            recorder: recorder.clone(),
            name: name.to_owned(),
        }
    }
}

impl Drop for RunningFile {
    fn drop(&mut self) {
        running(&self.recorder).remove(&self.name);
    }
}

fn running(recorder: &Recorder) -> MutexGuard<'_, BTreeSet<String>> {
    let running = recorder.0.running.lock();
    running.unwrap_or_else(PoisonError::into_inner)
}

impl RecordingConfig {
    fn limits(&self) -> RecordingLimits {
        RecordingLimits {
            keep_seconds: self.keep.as_ref().map(|keep| keep.0.0.as_secs()),
            max_bytes: self.max_size.as_ref().map(|size| size.0.0 as u64),
        }
    }
}

impl Recorder {
    /// Removes recordings beyond their retention, in a task of the process.
    pub fn start_retention(&self, log: &AuditLog, process: &Process) {
        let (recorder, log, draining) = (self.clone(), log.clone(), process.clone());
        process.spawn(async move {
            loop {
                let (step, log) = (recorder.clone(), log.clone());
                let removed =
                    spawn_blocking(move || step.remove_old(&log, OffsetDateTime::now_utc())).await;
                if let Ok(Err(error)) = removed {
                    warn!(%error, "old recordings not removed");
                }
                tokio::select! {
                    () = draining.draining() => return,
                    () = sleep(REMOVAL_INTERVAL) => {}
                }
            }
        });
    }

    /// Notes the policy beside the recordings, and removes those beyond it. The log names each.
    pub(crate) fn remove_old(&self, log: &AuditLog, now: OffsetDateTime) -> io::Result<usize> {
        let (dir, config) = (&self.0.dir, &self.0.config);
        let limits = config.limits();
        replace(&dir.join(POLICY_FILE), &serde_json::to_vec(&limits)?)?;
        let files = recordings(dir)?;
        let now = timestamp(now);
        let mut total: u64 = files.iter().map(|file| file.bytes).sum();
        let mut removed = 0;
        for file in files {
            let is_old = file.expires.as_ref().is_some_and(|end| *end < now);
            let is_over = limits.max_bytes.is_some_and(|max| total > max);
            if !(is_old || is_over) || removed == MAX_REMOVALS {
                break;
            }
            if running(self).contains(&file.name) {
                continue;
            }
            fs::remove_file(dir.join(&file.name))?;
            total = total.saturating_sub(file.bytes);
            removed += 1;
            log.recording_removed(file.name, file.bytes);
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AuditConfig, JournalSettings, OnFull, verify};

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("recordings")).unwrap();
        for day in 10..20 {
            let name = format!("202611{day}T120000Z_c-a_ann_{day}.cast.age");
            fs::write(folder.path().join("recordings").join(name), [1; 1000]).unwrap();
        }
        fs::write(folder.path().join("recordings/notes.txt"), [1; 5000]).unwrap();
        folder
    }

    fn days(dir: &Path) -> Vec<String> {
        let files = recordings(&dir.join("recordings")).unwrap();
        let days = files.iter().map(|file| file.name[6..8].to_owned());
        days.collect()
    }

    #[tokio::test]
    async fn recordings_are_removed_by_age_and_by_total_size_oldest_first() {
        let now = OffsetDateTime::parse(
            "2026-11-20T12:00:01Z",
            &time::format_description::well_known::Rfc3339,
        )
        .unwrap();
        for (limits, left) in [
            ("", "10 11 12 13 14 15 16 17 18 19"),
            ("keep = \"5d\"", "16 17 18 19"),
            ("keep = \"7d\"\nmax-size = \"3KiB\"", "12 18 19"),
        ] {
            let dir = folder();
            let settings = JournalSettings::of(dir.path().to_owned(), "hub".to_owned());
            let writer = AuditLog::open(settings, OnFull::Refuse).unwrap();
            let key = age::x25519::Identity::generate().to_public();
            let config = format!("[recording]\nrecipient = \"{key}\"\n{limits}");
            let config = AuditConfig::parse(&config).unwrap();
            let recorder = config.recorder(dir.path()).unwrap().unwrap();
            let spared = "20261112T120000Z_c-a_ann_12.cast.age";
            let running = left
                .starts_with("12")
                .then(|| RunningFile::of(&recorder, spared));
            let removed = recorder.remove_old(&writer.log(), now).unwrap();
            assert_eq!(days(dir.path()).join(" "), left, "{limits}");
            assert!(dir.path().join("recordings/notes.txt").exists());
            drop(running);
            writer.finish();
            if removed > 0 {
                let log = fs::read_to_string(dir.path().join("00000001.jsonl")).unwrap();
                assert_eq!(
                    log.matches("\"stage\":\"removed\"").count(),
                    removed,
                    "{log}"
                );
                assert_eq!(verify(dir.path()).unwrap().findings, []);
            }
            let expires = recordings(&dir.path().join("recordings")).unwrap();
            assert_eq!(expires[0].expires.is_some(), !limits.is_empty());
        }
    }
}
