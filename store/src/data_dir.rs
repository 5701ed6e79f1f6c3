//! The hub's data directory: private to its user, locked by one hub at a time.

use std::{
    fs::{self, DirBuilder, File, Permissions, TryLockError},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use fairlead_api::{Code, Failure};
use tracing::warn;

use crate::claim::lock;

/// Name of the lock file.
pub const LOCK: &str = "hub.lock";

/// Exclusive lock on the directory. The operating system releases it when the process ends.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Creates the directory if missing (mode 0700) and locks it.
    ///
    /// # Errors
    /// `FL-4103` if it cannot be used, is writable by others, or another hub runs in it.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let fail = |detail: &dyn std::fmt::Display| {
            Failure::because(Code::DataDir, format_args!("{}: {detail}", path.display()))
        };
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(path).map_err(|error| fail(&error))?;
        restrict_access(path).map_err(|detail| fail(&detail))?;
        match lock(&path.join(LOCK)) {
            Ok(lock) => Ok(DataDir {
                path: path.to_owned(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(fail(&"another hub runs in it")
                .next("Stop that hub first, or name another folder with `--data`.")),
            Err(TryLockError::Error(error)) => Err(fail(&error)),
        }
    }

    /// Stores this hub's name on its database; returns the previous hub's name. An unreadable name
    /// counts as none: the other hubs detect by themselves that the previous hub is gone.
    ///
    /// # Errors
    /// `FL-4103` if it cannot be written.
    pub fn renamed(&self, name: &str) -> Result<Option<String>, Failure> {
        if name.is_empty() {
            return Ok(None);
        }
        let path = self.join("hub.name");
        let before = fs::read_to_string(&path).ok();
        fs::write(&path, name).map_err(|error| {
            Failure::because(Code::DataDir, format_args!("{}: {error}", path.display()))
        })?;
        Ok(before.filter(|before| before.len() == name.len()))
    }

    /// Path of a file in the directory.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn restrict_access(path: &Path) -> Result<(), String> {
    let mode = |path| fs::metadata(path).map(|about| about.permissions().mode() & 0o777);
    let before = mode(path).map_err(|error| error.to_string())?;
    if before & 0o077 == 0 {
        return Ok(());
    }
    match fs::set_permissions(path, Permissions::from_mode(0o700)) {
        Ok(()) => {
            warn!(path = %path.display(), mode = format_args!("{before:04o}"), "data directory was accessible to other users; access restricted");
            Ok(())
        }
        // Write access would allow replacing our keys. Read access is harmless: the keys are 0600.
        Err(_) if before & 0o022 != 0 => Err(format!(
            "other users may write to it (mode {before:04o}) and this user cannot change that; name a folder inside it"
        )),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_hub_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/data");
        let first = DataDir::open(&path).unwrap();
        let failure = DataDir::open(&path).unwrap_err();
        assert_eq!(failure.code, Code::DataDir);
        assert!(failure.cause.contains("another hub"), "{failure}");
        assert!(failure.next_step().starts_with("Stop"), "{failure:?}");
        drop(first);
        DataDir::open(&path).unwrap();
    }

    #[test]
    fn the_previous_hubs_name_is_returned() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::open(dir.path()).unwrap();
        assert_eq!(data.renamed("").unwrap(), None);
        assert_eq!(data.renamed("one").unwrap(), None);
        assert_eq!(data.renamed("two").unwrap(), Some("one".to_owned()));
        fs::write(dir.path().join("hub.name"), "x".repeat(9999)).unwrap();
        assert_eq!(data.renamed("one").unwrap(), None);
    }

    #[test]
    fn access_is_restricted_to_the_owner() {
        let dir = tempfile::tempdir().unwrap();
        let mode = || fs::metadata(dir.path()).unwrap().permissions().mode() & 0o777;
        fs::set_permissions(dir.path(), Permissions::from_mode(0o775)).unwrap();
        DataDir::open(dir.path()).unwrap();
        assert_eq!(mode(), 0o700);
    }
}
