//! Files of credentials: reads them and detects changes.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use http::HeaderValue;

use super::error::CredentialsError;

/// Version of a file. A swapped symlink has another inode.
#[derive(PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    len: u64,
    modified: (i64, i64),
}

pub(super) async fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let mut stamps = Vec::with_capacity(files.len());
    for file in files {
        let about = tokio::fs::metadata(file).await.ok();
        stamps.push(about.map_or(
            Stamp {
                inode: 0,
                len: 0,
                modified: (0, 0),
            },
            |about| Stamp {
                inode: about.ino(),
                len: about.len(),
                modified: (about.mtime(), about.mtime_nsec()),
            },
        ));
    }
    stamps
}

pub(super) async fn read(path: &Path) -> Result<String, CredentialsError> {
    tokio::fs::read_to_string(path)
        .await
        .map_err(|error| CredentialsError::file(path, &error))
}

/// `Bearer <token>`, hidden in logs.
pub(super) fn bearer(token: &str) -> Option<HeaderValue> {
    let token = token.trim();
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))
        .ok()
        .filter(|_| !token.is_empty())?;
    value.set_sensitive(true);
    Some(value)
}
