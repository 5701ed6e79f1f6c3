//! Errors of folders.

use std::io;

use fairlead_api::delivery::ArtifactId;

use super::limits::{MAX_FILES, MAX_PACKED_BYTES, MAX_PATH_BYTES, MAX_UNPACKED_BYTES};

/// An archive or a list of files that is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// More bytes than [`MAX_PACKED_BYTES`].
    #[error("the folder has more than {} MiB packed", MAX_PACKED_BYTES >> 20)]
    Packed,
    /// More bytes than [`MAX_UNPACKED_BYTES`].
    #[error("the folder has more than {} MiB", MAX_UNPACKED_BYTES >> 20)]
    Unpacked,
    /// More files than [`MAX_FILES`].
    #[error("the folder has more than {MAX_FILES} files")]
    Files,
    /// The memory budget of the caller is used up.
    #[error("the memory budget is used up")]
    Memory,
    /// A path leaves the folder, or is not portable.
    #[error("path {path:?}: {problem}")]
    Path {
        /// The path, shortened.
        path: String,
        /// Cause.
        problem: PathProblem,
    },
    /// The entry is no regular file.
    #[error("{path:?} is a {kind}; only regular files are accepted")]
    Kind {
        /// The path, shortened.
        path: String,
        /// Kind of the entry.
        kind: &'static str,
    },
    /// The file is there twice.
    #[error("{0:?} is there twice")]
    Duplicate(String),
    /// Two paths differ in upper and lower case only.
    #[error("{0:?} and {1:?} differ in upper and lower case only")]
    Case(String, String),
    /// A path is a file and a folder.
    #[error("{0:?} is a file and a folder")]
    FileAndFolder(String),
    /// The archive ends early, or has other data behind its end.
    #[error("the archive is cut off")]
    CutOff,
    /// The archive is damaged, or no tar.
    #[error("the archive cannot be read: {0}")]
    Archive(String),
    /// The content has another digest than its name.
    #[error("the content has the digest {found}, not {expected}")]
    Digest {
        /// Expected name.
        expected: ArtifactId,
        /// Name of the content.
        found: ArtifactId,
    },
    /// The reader failed.
    #[error("the archive cannot be read")]
    Read(#[source] io::Error),
}

/// Cause of a refused path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// The path is empty.
    #[error("the path is empty")]
    Empty,
    /// The path starts with `/`.
    #[error("the path is absolute")]
    Absolute,
    /// The path has `..`.
    #[error("the path leaves the folder")]
    Parent,
    /// The path has a control character or a backslash.
    #[error("control characters and backslashes are not accepted")]
    Character,
    /// The path is no UTF-8.
    #[error("the path is no UTF-8")]
    Encoding,
    /// The path is longer than [`MAX_PATH_BYTES`].
    #[error("the path has more than {MAX_PATH_BYTES} bytes")]
    Length,
}
