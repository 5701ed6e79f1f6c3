//! Reads archives of people: bounded, in one pass.

use std::{
    cell::Cell,
    io::{self, BufReader, Read},
};

use flate2::bufread::MultiGzDecoder;
use tar::{Archive, EntryType};

use super::{
    error::FolderError,
    files::{Budget, Files, FilesBuilder},
    limits::{MAX_FILES, MAX_UNPACKED_BYTES},
    path,
};

/// Maximum number of entries, with folders and headers of the format.
const MAX_ENTRIES: usize = 2 * MAX_FILES;
/// Maximum length of a stream before and after decompression: contents, and headers and paddings of all entries.
const MAX_STREAM_BYTES: u64 = MAX_UNPACKED_BYTES + 2 * 1024 * MAX_ENTRIES as u64;
/// First bytes of gzip (RFC 1952).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Size of a block of a tar.
const BLOCK_BYTES: u64 = 512;
/// End of a tar: two blocks of zeros at least.
const MIN_END_BYTES: u64 = 2 * BLOCK_BYTES;

/// State of a [`Bounded`] stream, shared with the reader of the archive.
#[derive(Default)]
struct Progress {
    bytes: Cell<u64>,
    /// Zeros at the end of the bytes so far.
    zeros: Cell<u64>,
    exceeded: Cell<bool>,
}

/// A stream that fails after [`MAX_STREAM_BYTES`].
struct Bounded<'a, R> {
    inner: R,
    progress: &'a Progress,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        let (read, _) = buffer.split_at(length);
        let total = self.progress.bytes.get() + length as u64;
        self.progress.bytes.set(total);
        let zeros = read.iter().rev().take_while(|byte| **byte == 0).count();
        let before = if zeros == length {
            self.progress.zeros.get()
        } else {
            0
        };
        self.progress.zeros.set(before + zeros as u64);
        if total > MAX_STREAM_BYTES {
            self.progress.exceeded.set(true);
            return Err(io::Error::other("the stream is too long"));
        }
        Ok(length)
    }
}

pub(super) fn from_archive(reader: impl Read, budget: Budget<'_>) -> Result<Files, FolderError> {
    let input = Progress::default();
    let mut reader = Bounded {
        inner: reader,
        progress: &input,
    };
    let mut head = Vec::with_capacity(GZIP_MAGIC.len());
    let mut magic = reader.by_ref().take(GZIP_MAGIC.len() as u64);
    magic.read_to_end(&mut head).map_err(FolderError::Read)?;
    let is_gzip = head == GZIP_MAGIC;
    let reader = BufReader::new(head.as_slice().chain(reader));
    let output = Progress::default();
    let result = if is_gzip {
        read_tar(MultiGzDecoder::new(reader), &output, budget)
    } else {
        read_tar(reader, &output, budget)
    };
    if input.exceeded.get() || output.exceeded.get() {
        return Err(FolderError::Unpacked);
    }
    result
}

fn read_tar(
    inner: impl Read,
    progress: &Progress,
    budget: Budget<'_>,
) -> Result<Files, FolderError> {
    let mut archive = Archive::new(Bounded { inner, progress });
    let mut files = FilesBuilder::new(budget);
    let mut end_of_entries = 0;
    let entries = archive.entries().map_err(failed)?;
    for (number, entry) in entries.enumerate() {
        if number >= MAX_ENTRIES {
            return Err(FolderError::Files);
        }
        let mut entry = entry.map_err(failed)?;
        let size = entry.size();
        let padded = size.checked_next_multiple_of(BLOCK_BYTES);
        end_of_entries = padded
            .and_then(|padded| entry.raw_file_position().checked_add(padded))
            .ok_or(FolderError::Unpacked)?;
        let bytes = entry.path_bytes();
        let kind = entry.header().entry_type();
        // `git archive` writes the commit into such a header; it is no entry.
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        let checked = path::checked(&bytes)?;
        // Old archives mark folders by the path only.
        if kind == EntryType::Directory || bytes.ends_with(b"/") {
            continue;
        }
        let Some(path) = checked else {
            continue;
        };
        check_kind(&path, kind)?;
        files.reserve(size)?;
        // Not more memory than bytes that are there.
        let mut content = Vec::new();
        let read = entry.read_to_end(&mut content).map_err(failed)?;
        if read as u64 != size {
            return Err(FolderError::CutOff);
        }
        files.insert(path, content)?;
    }
    let mut rest = archive.into_inner();
    io::copy(&mut rest, &mut io::sink()).map_err(failed)?;
    // A tar that is cut off between two entries looks complete, but for its end.
    let end_bytes = progress.bytes.get().saturating_sub(end_of_entries);
    if end_bytes < MIN_END_BYTES || progress.zeros.get() < end_bytes {
        return Err(FolderError::CutOff);
    }
    files.finish()
}

fn check_kind(path: &str, kind: EntryType) -> Result<(), FolderError> {
    let kind = match kind {
        EntryType::Regular | EntryType::Continuous => return Ok(()),
        EntryType::Symlink => "symbolic link",
        EntryType::Link => "hard link",
        EntryType::Char | EntryType::Block => "device",
        EntryType::Fifo => "pipe",
        EntryType::GNUSparse => "sparse file",
        _ => "special file",
    };
    let path = path::shown(path.as_bytes());
    Err(FolderError::Kind { path, kind })
}

fn failed(error: io::Error) -> FolderError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => FolderError::CutOff,
        // Errors of the formats have these kinds; all others come from the caller's reader.
        io::ErrorKind::Other | io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            FolderError::Archive(error.to_string())
        }
        _ => FolderError::Read(error),
    }
}
