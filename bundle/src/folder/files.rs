//! Files of a folder, within its limits.

use std::collections::{BTreeMap, btree_map::Entry};

use super::{
    error::FolderError,
    limits::{MAX_FILES, MAX_UNPACKED_BYTES},
    path,
};

/// Memory of a file beside its content, in bytes.
const FILE_BYTES: u64 = 1024;

/// Contents by path.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// Budget of memory: takes bytes, or returns false.
pub(super) type Budget<'a> = &'a mut dyn FnMut(u64) -> bool;

/// Folder under construction, within its limits.
pub(super) struct FilesBuilder<'a> {
    files: Files,
    bytes: u64,
    budget: Budget<'a>,
}

impl<'a> FilesBuilder<'a> {
    pub(super) fn new(budget: Budget<'a>) -> Self {
        FilesBuilder {
            files: Files::new(),
            bytes: 0,
            budget,
        }
    }

    /// Counts the bytes of a file before they are read.
    pub(super) fn reserve(&mut self, bytes: u64) -> Result<(), FolderError> {
        if self.files.len() >= MAX_FILES {
            return Err(FolderError::Files);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_UNPACKED_BYTES {
            return Err(FolderError::Unpacked);
        }
        if !(self.budget)(bytes.saturating_add(FILE_BYTES)) {
            return Err(FolderError::Memory);
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
