//! Cleanup guard for files and folders that a command creates: removes them unless the command
//! succeeds.

use std::{
    fs,
    path::{Path, PathBuf},
};

use fairlead_store::{DataDir, LOCK, Place, claim::lock_file};

use super::stage::staged;
use crate::files::ALL_KEYS;

/// Paths that did not exist before, in the order of removal.
pub(super) struct Leftovers(Vec<PathBuf>);

impl Leftovers {
    /// The data folder, its missing parents, and its lock. Call before the folder is opened.
    pub(super) fn folder(path: &Path) -> Self {
        let lock = path.join(LOCK);
        let folders = path.ancestors().map(Path::to_owned);
        Leftovers::missing([lock].into_iter().chain(folders))
    }

    /// Files that a restore may create. Call under the folder's lock, else they may belong to a
    /// hub.
    pub(super) fn files(dir: &DataDir, place: &Place) -> Self {
        let mut files: Vec<PathBuf> = ALL_KEYS.iter().map(|name| dir.join(name)).collect();
        let restored = ALL_KEYS.iter().map(|name| dir.join(&staged(name)));
        if let Place::File(file) = place {
            for suffix in ["", "-wal", "-shm", "-journal"] {
                let mut name = file.as_os_str().to_owned();
                name.push(suffix);
                files.push(name.into());
            }
            files.push(lock_file(file));
        }
        let mut leftovers = Leftovers::missing(files);
        // An interrupted restore may have left these.
        leftovers.0.extend(restored);
        leftovers
    }

    fn missing(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let missing = paths
            .into_iter()
            .filter(|path| path.symlink_metadata().is_err());
        Leftovers(
            missing
                .filter(|path| !path.as_os_str().is_empty())
                .collect(),
        )
    }

    pub(super) fn then(&mut self, mut others: Leftovers) {
        self.0.append(&mut others.0);
    }

    /// Marks the command as successful.
    pub(super) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        for path in &self.0 {
            // Removes empty folders only. Errors are ignored: the command's own failure is
            // reported.
            let _ = match path.symlink_metadata() {
                Ok(about) if about.is_dir() => fs::remove_dir(path),
                _ => fs::remove_file(path),
            };
        }
    }
}
