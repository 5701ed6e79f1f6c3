//! Writes the canonical archive.

use std::io::{self, Write};

use aws_lc_rs::digest::{Context, SHA256};
use fairlead_api::delivery::ArtifactId;
use flate2::{Compression, GzBuilder};
use tar::{Builder, Header};

use super::{error::FolderError, files::Files, limits::MAX_PACKED_BYTES};
use crate::canonical::finished;

/// Mode of all files.
const FILE_MODE: u32 = 0o644;

/// A packed folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Name: SHA-256 of the canonical archive before packing.
    pub id: ArtifactId,
    /// The canonical archive, by gzip. Its bytes may differ between versions of the encoder.
    pub packed: Vec<u8>,
    /// Number of files.
    pub files: usize,
    /// Size of all files in bytes.
    pub unpacked_bytes: u64,
}

/// Hashes bytes and hands them on.
struct Hashed<W> {
    context: Context,
    inner: W,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.inner.write(bytes)?;
        let (written, _) = bytes.split_at(length);
        self.context.update(written);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Memory that fails beyond [`MAX_PACKED_BYTES`].
struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.0.len() + bytes.len()) as u64 > MAX_PACKED_BYTES {
            return Err(io::Error::other("the packed folder is too large"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn pack(files: &Files) -> Result<Artifact, FolderError> {
    // No name and no time in the header of gzip.
    let packed = GzBuilder::new().write(Limited(Vec::new()), Compression::default());
    // Only the limit makes writes to memory fail.
    let (id, packed) = write_tar(files, packed).map_err(|_| FolderError::Packed)?;
    let Limited(packed) = packed.finish().map_err(|_| FolderError::Packed)?;
    let sizes = files.values().map(|content| content.len() as u64);
    Ok(Artifact {
        id,
        packed,
        files: files.len(),
        unpacked_bytes: sizes.sum(),
    })
}

/// Name of a folder, without packing it.
pub(super) fn id_of(files: &Files) -> ArtifactId {
    let written = write_tar(files, io::sink());
    // Paths were checked, and the sink takes everything.
    written.map_or_else(|_| ArtifactId::of_sha256(&[0; 32]), |(id, _)| id)
}

fn write_tar<W: Write>(files: &Files, inner: W) -> io::Result<(ArtifactId, W)> {
    let context = Context::new(&SHA256);
    let mut tar = Builder::new(Hashed { context, inner });
    for (path, content) in files {
        let mut header = Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(FILE_MODE);
        tar.append_data(&mut header, path, content.as_slice())?;
    }
    let hashed = tar.into_inner()?;
    let id = ArtifactId::of_sha256(&finished(hashed.context.finish()));
    Ok((id, hashed.inner))
}
