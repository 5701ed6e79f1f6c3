//! Exclusive use of a store: no hub may run on it meanwhile. A SQLite file has a lock file next to
//! it. Hubs on PostgreSQL are detected by their heartbeats.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use fairlead_api::{Code, Failure};

use crate::{backend::Backend, heartbeats::HEARTBEAT_TIMEOUT, place::Place, unusable::unusable};

/// Lock of a SQLite store; the operating system releases it when the process ends.
#[derive(Debug)]
pub struct Claim {
    _lock: Option<File>,
}

impl Claim {
    /// Locks the file of a store. PostgreSQL has no lock: `refuse_live_hubs` checks for its
    /// hubs.
    ///
    /// # Errors
    /// `FL-4103` if a hub uses the file, or it cannot be locked.
    pub fn of(place: &Place) -> Result<Self, Failure> {
        let Place::File(file) = place else {
            return Ok(Claim { _lock: None });
        };
        match lock(&lock_file(file)) {
            Ok(lock) => Ok(Claim { _lock: Some(lock) }),
            Err(TryLockError::WouldBlock) => {
                Err(in_use(place, "a hub runs on it")
                    .next("Stop that hub, and run the command again."))
            }
            Err(TryLockError::Error(error)) => Err(unusable(place, &error)),
        }
    }
}

/// Next to the file under its real path: one file has one lock, even through symbolic links.
pub fn lock_file(file: &Path) -> PathBuf {
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let mut name = real.into_os_string();
    name.push(".lock");
    name.into()
}

/// Locks a file, created with mode 0600 if missing.
///
/// # Errors
/// Another process holds the lock, or the file cannot be opened.
pub fn lock(path: &Path) -> Result<File, TryLockError> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let file = options.open(path).map_err(TryLockError::Error)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(TryLockError::WouldBlock)
        }
        Err(error) => Err(error),
    }
}

/// Refuses a store that other processes' hubs use.
///
/// # Errors
/// `FL-4103` with the URLs of the hubs.
pub(crate) async fn refuse_live_hubs(place: &Place, backend: &dyn Backend) -> Result<(), Failure> {
    let hubs = backend.hubs().await;
    let hubs = hubs.map_err(|error| unusable(place, &error))?;
    let age = |age: i64| Duration::from_millis(u64::try_from(age).unwrap_or_default());
    let living = hubs
        .into_iter()
        .filter(|hub| !hub.ended && age(hub.age) < HEARTBEAT_TIMEOUT);
    let urls: Vec<String> = living.map(|hub| hub.url).collect();
    if urls.is_empty() {
        return Ok(());
    }
    let detail = format!("hubs run on it: {}", urls.join(", "));
    Err(in_use(place, &detail).next(
        "Stop these hubs and run the command again; a killed hub counts as running for ten more seconds.",
    ))
}

fn in_use(place: &Place, detail: &str) -> Failure {
    Failure::with_cause(
        Code::DataDir,
        format!("the store {place} is in use: {detail}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_file_is_locked_once_under_every_path() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("x.db"), dir.path().join("y.db"));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let first = Claim::of(&Place::File(file)).unwrap();
        let failure = Claim::of(&Place::File(link.clone())).unwrap_err();
        assert_eq!(failure.code, Code::DataDir);
        assert!(failure.next_step().starts_with("Stop"), "{failure:?}");
        drop(first);
        Claim::of(&Place::File(link)).unwrap();
    }
}
