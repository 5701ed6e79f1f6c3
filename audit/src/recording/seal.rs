//! Files that are sealed with `age` for one recipient.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use age::{Decryptor, Encryptor, Identity, Recipient, stream::StreamWriter, x25519};

use super::reserved::{DiskFull, ReservedFile};

/// A sealed file that is being written.
pub(super) struct SealedFile {
    writer: StreamWriter<ReservedFile>,
    disk_full: DiskFull,
}

impl SealedFile {
    /// Writes text; the file is complete after an error because of a full disk, too.
    pub(super) fn write(&mut self, text: &[u8]) -> io::Result<()> {
        self.writer.write_all(text)?;
        self.disk_full.check()
    }

    /// Writes the last block, and syncs.
    pub(super) fn finish(self) -> io::Result<()> {
        self.writer.finish()?.finish()
    }
}

/// Reason not to open a recording.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The text holds no key of `age-keygen`.
    #[error("the identity is not a key file of age-keygen")]
    BadIdentity,
    /// The file is sealed for another key, or is no recording.
    #[error("{0}")]
    Sealed(#[from] age::DecryptError),
}

/// Creates a file of mode 0600, which must not exist. A full disk leaves none.
pub(super) fn create(path: &Path, recipient: &x25519::Recipient) -> io::Result<SealedFile> {
    let mut options = OpenOptions::new();
    let file = options
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)?;
    let recipients = std::iter::once(recipient as &dyn Recipient);
    let encryptor = Encryptor::with_recipients(recipients).map_err(io::Error::other)?;
    let sealed = ReservedFile::new(file).and_then(|file| {
        let disk_full = file.disk_full();
        let writer = encryptor.wrap_output(file)?;
        Ok(SealedFile { writer, disk_full })
    });
    if sealed.is_err() {
        std::fs::remove_file(path)?;
    }
    sealed
}

/// Opens a recording with the text of an identity file.
///
/// # Errors
/// [`OpenError`]
pub fn open_recording(path: &Path, identity: &str) -> Result<impl Read, OpenError> {
    let keys = identity.lines().map(str::trim);
    let keys = keys.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys: Result<Vec<x25519::Identity>, _> = keys.map(str::parse).collect();
    let keys = keys.map_err(|_| OpenError::BadIdentity)?;
    let decryptor = Decryptor::new(File::open(path)?)?;
    Ok(decryptor.decrypt(keys.iter().map(|key| key as &dyn Identity))?)
}
