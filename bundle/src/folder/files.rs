//! Files of a folder, within its limits.

use std::collections::{BTreeMap, btree_map::Entry};

use super::{
    error::FolderError,
    limits::{MAX_FILES, MAX_UNPACKED_BYTES},
    path,
};

/// Contents by path.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// Folder under construction, within its limits.
#[derive(Default)]
pub(super) struct FilesBuilder {
    files: Files,
    bytes: u64,
}

impl FilesBuilder {
    /// Counts the bytes of a file before they are read.
    pub(super) fn reserve(&mut self, bytes: u64) -> Result<(), FolderError> {
        if self.files.len() >= MAX_FILES {
            return Err(FolderError::Files);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_UNPACKED_BYTES {
            return Err(FolderError::Unpacked);
        }
        Ok(())
    }

    pub(super) fn insert(&mut self, path: String, content: Vec<u8>) -> Result<(), FolderError> {
        match self.files.entry(path) {
            Entry::Vacant(entry) => {
                entry.insert(content);
                Ok(())
            }
            Entry::Occupied(entry) => Err(FolderError::Duplicate(entry.key().clone())),
        }
    }

    pub(super) fn finish(self) -> Result<Files, FolderError> {
        path::check_conflicts(self.files.keys().map(String::as_str))?;
        Ok(self.files)
    }
}
