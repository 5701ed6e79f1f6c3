//! Files and folders that a command makes, removed again unless it succeeds.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{KEYS, stage::staged};
use crate::{
    data_dir::{DataDir, LOCK},
    store::{Place, claim::lock_file},
};

/// Paths that were not there before, in the order in which they are removed.
pub(super) struct Leftovers(Vec<PathBuf>);

impl Leftovers {
    /// The folder, those above it, and its lock. To be asked before the folder is opened.
    pub(super) fn folder(path: &Path) -> Self {
        let lock = path.join(LOCK);
        let folders = path.ancestors().map(Path::to_owned);
        Leftovers::missing([lock].into_iter().chain(folders))
    }

    /// What a restore may make. To be asked under the lock of the folder: else the files may be a hub's.
    pub(super) fn files(dir: &DataDir, place: &Place) -> Self {
        let mut files: Vec<PathBuf> = KEYS.iter().map(|name| dir.join(name)).collect();
        let restored = KEYS.iter().map(|name| dir.join(&staged(name)));
        if let Place::File(file) = place {
            for suffix in ["", "-wal", "-shm", "-journal"] {
                let mut name = file.as_os_str().to_owned();
                name.push(suffix);
                files.push(name.into());
            }
            files.push(lock_file(file));
        }
        let mut leftovers = Leftovers::missing(files);
        // A restore that was cut off may have left these.
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

    /// The command has succeeded.
    pub(super) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        for path in &self.0 {
            // A folder goes only where it is empty; the failure of the command is the one to report.
            let _ = match path.symlink_metadata() {
                Ok(about) if about.is_dir() => fs::remove_dir(path),
                _ => fs::remove_file(path),
            };
        }
    }
}
