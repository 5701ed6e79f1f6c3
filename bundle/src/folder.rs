//! Folders of bundles: their files, their canonical archive, and its name.
//!
//! The canonical archive is a tar of regular files, ordered by path, without times, owners and permissions. Its
//! SHA-256 is the [`ArtifactId`]. It is kept packed by gzip: agents have the decoder already, and its files are small.

mod error;
mod files;
mod limits;
mod pack;
mod path;
mod read;

use std::{collections::btree_map, io};

use fairlead_api::delivery::ArtifactId;

use self::files::{Files, FilesBuilder};
use crate::variables::UsedVariables;
pub use error::{FolderError, PathProblem};
pub use limits::{MAX_FILES, MAX_PACKED_BYTES, MAX_PATH_BYTES, MAX_UNPACKED_BYTES};
pub use pack::Artifact;

/// A file of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Path inside of the folder, with `/`.
    pub path: String,
    /// Mode of Unix or Git; its type must be that of a regular file, or absent. Permissions are dropped.
    pub mode: u32,
    /// Content.
    pub content: Vec<u8>,
}

/// Files of a folder by path. Names of `.git` are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Folder {
    files: Files,
}

impl Folder {
    /// Makes a folder of a list of files.
    ///
    /// # Errors
    /// [`FolderError`] for a file or a path that is not accepted.
    pub fn from_files(files: impl IntoIterator<Item = FileEntry>) -> Result<Self, FolderError> {
        let mut unlimited = |_| true;
        let mut builder = FilesBuilder::new(&mut unlimited);
        for file in files {
            let Some(path) = path::checked(file.path.as_bytes())? else {
                continue;
            };
            path::check_mode(&path, file.mode)?;
            builder.reserve(file.content.len() as u64)?;
            builder.insert(path, file.content)?;
        }
        let files = builder.finish()?;
        Ok(Folder { files })
    }

    /// Reads a tar or a gzipped tar, of any order and origin.
    ///
    /// # Errors
    /// [`FolderError`] for damaged archives, exceeded limits, and entries that are not accepted.
    pub fn from_archive(reader: impl io::Read) -> Result<Self, FolderError> {
        Folder::from_archive_within(reader, &mut |_| true)
    }

    /// As [`Folder::from_archive`], within a memory budget: `budget` takes a number of bytes, or returns false.
    ///
    /// # Errors
    /// [`FolderError`]
    pub fn from_archive_within(
        reader: impl io::Read,
        budget: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Self, FolderError> {
        let files = read::from_archive(reader, budget)?;
        Ok(Folder { files })
    }

    /// Reads an artifact and compares its digest.
    ///
    /// # Errors
    /// [`FolderError`] as of [`Folder::from_archive`], and for another digest.
    pub fn from_artifact(packed: impl io::Read, id: &ArtifactId) -> Result<Self, FolderError> {
        let files = read::from_archive(packed, &mut |_| true)?;
        let found = pack::id_of(&files);
        if found == *id {
            Ok(Folder { files })
        } else {
            let expected = id.clone();
            Err(FolderError::Digest { expected, found })
        }
    }

    /// Packs the canonical archive.
    ///
    /// # Errors
    /// [`FolderError::Packed`] for a folder that is too large packed.
    pub fn pack(&self) -> Result<Artifact, FolderError> {
        pack::pack(&self.files)
    }

    /// The content of the only top-level folder, if there is no file beside it; the same folder otherwise.
    ///
    /// Packaged charts and archives of releases have such a folder.
    #[must_use]
    pub fn without_top_folder(self) -> Self {
        let top = self
            .files
            .keys()
            .next()
            .and_then(|path| path.split_once('/'));
        let Some((top, _)) = top else {
            return self;
        };
        let prefix = format!("{top}/");
        if !self.files.keys().all(|path| path.starts_with(&prefix)) {
            return self;
        }
        let files = self.files.into_iter().filter_map(|(path, content)| {
            let path = path.strip_prefix(&prefix)?.to_owned();
            Some((path, content))
        });
        Folder {
            files: files.collect(),
        }
    }

    /// Content of a file.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// Paths and contents, ordered by path.
    pub fn iter(&self) -> btree_map::Iter<'_, String, Vec<u8>> {
        self.files.iter()
    }

    /// Number of files.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// True without any file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// True if the folder is a Helm chart.
    #[must_use]
    pub fn has_chart_file(&self) -> bool {
        self.files.contains_key(crate::fields::CHART_FILE_NAME)
    }

    /// Variables in the manifests: files that end with `.yaml`, `.yml` or `.json`.
    #[must_use]
    pub fn used_variables(&self) -> UsedVariables {
        let mut used = UsedVariables::default();
        let is_manifest = |path: &str| {
            let extension = path.rsplit_once('.').map(|(_, it)| it);
            matches!(extension, Some("yaml" | "yml" | "json")) && path != crate::fields::FILE_NAME
        };
        for (path, content) in &self.files {
            if is_manifest(path)
                && let Ok(text) = str::from_utf8(content)
            {
                used.extend(&UsedVariables::of_text(text));
            }
        }
        used
    }
}

impl<'a> IntoIterator for &'a Folder {
    type Item = (&'a String, &'a Vec<u8>);
    type IntoIter = btree_map::Iter<'a, String, Vec<u8>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests;
