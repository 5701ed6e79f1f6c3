//! Staging of the keys in a backup: written next to their final paths, and moved there once the
//! store has changed.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use fairlead_api::Failure;
use fairlead_certs::keyfile;
use fairlead_store::{DataDir, dump::Files};
use secrecy::ExposeSecret;

use super::failure::unusable;
use crate::files::{ALL_KEYS, KEYS};

/// Name, staging path and final path of each key.
#[derive(Clone)]
pub(super) struct Stage(Vec<(&'static str, PathBuf, PathBuf)>);

impl Stage {
    pub(super) fn new(dir: &DataDir) -> Self {
        let places = ALL_KEYS.map(|name| (name, dir.join(&staged(name)), dir.join(name)));
        Stage(places.to_vec())
    }

    /// Writes the keys to their staging paths.
    ///
    /// # Errors
    /// `FL-4103` if a key cannot be written; then no staged file remains.
    pub(super) fn put(&self, files: &Files) -> Result<(), Failure> {
        self.clear()?;
        let put = || {
            for (name, beside, _) in &self.0 {
                if let Some(text) = files.get(*name) {
                    keyfile::create(beside, text.expose_secret())?;
                }
            }
            Ok(())
        };
        put().inspect_err(|_| drop(self.clear()))
    }

    /// Moves the keys to their final paths, replacing existing files. A backup with keys and without a rotation ends the
    /// one of the folder.
    ///
    /// # Errors
    /// `FL-4103` if one cannot be moved.
    pub(super) fn commit(&self) -> Result<(), Failure> {
        let has_keys = self.0.iter().any(|(_, beside, _)| beside.exists());
        for (name, beside, place) in &self.0 {
            if has_keys && !KEYS.contains(name) && !beside.exists() {
                remove(place)?;
            }
            match fs::rename(beside, place) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(unusable(place, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn clear(&self) -> Result<(), Failure> {
        self.0.iter().try_for_each(|(_, beside, _)| remove(beside))
    }
}

fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unusable(path, &error)),
        _ => Ok(()),
    }
}

pub(super) fn staged(name: &str) -> String {
    format!("{name}.restored")
}
