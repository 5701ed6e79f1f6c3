//! One file of the spool: consecutive records of length, checksum and batch.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use flate2::Crc;

use crate::influx::batch::LineBatch;

/// Size of a record header: length and checksum, 4 bytes each.
const HEADER_BYTES: u64 = 8;
/// Maximum plausible length of a batch.
const MAX_BATCH_BYTES: u32 = 8 * 1024 * 1024;

/// Metadata of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpoolRecord {
    length: u32,
    pub(super) lines: u32,
    pub(super) at: i64,
}

impl SpoolRecord {
    /// Also returns the encoded record.
    pub(super) fn of(batch: &LineBatch) -> (SpoolRecord, Vec<u8>) {
        let bytes = batch.to_bytes();
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut record = Vec::with_capacity(bytes.len() + 8);
        record.extend(length.to_le_bytes());
        record.extend(checksum(&bytes).to_le_bytes());
        record.extend(bytes);
        (SpoolRecord::new(length, batch), record)
    }

    fn new(length: u32, batch: &LineBatch) -> SpoolRecord {
        SpoolRecord {
            length,
            lines: u32::try_from(batch.lengths.len()).unwrap_or(u32::MAX),
            at: batch.at,
        }
    }

    /// Size in the file, in bytes.
    pub(super) fn size(&self) -> u64 {
        HEADER_BYTES + u64::from(self.length)
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Creates a file, or reuses an empty one.
pub(super) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true).mode(0o600);
    options.open(path)
}

/// Makes a new file's directory entry durable.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Appends at `begin`; truncates there on failure.
pub(super) fn append(
    file: &mut File,
    begin: u64,
    records: &[(SpoolRecord, Vec<u8>)],
) -> io::Result<()> {
    let mut write = || {
        file.seek(SeekFrom::Start(begin))?;
        for (_, record) in records {
            file.write_all(record)?;
        }
        file.sync_data()
    };
    let written = write();
    if written.is_err() {
        // A remainder would be truncated on the next read.
        let _ = file.set_len(begin);
    }
    written
}

/// Records of a file, their total length, and true if a torn end was truncated.
pub(super) fn scan(path: &Path) -> io::Result<(Vec<SpoolRecord>, u64, bool)> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let whole = file.metadata()?.len();
    let mut reader = BufReader::new(&file);
    let (mut entries, mut length) = (Vec::new(), 0);
    while let Some((entry, _)) = next(&mut reader)? {
        length += entry.size();
        entries.push(entry);
    }
    if length < whole {
        file.set_len(length)?;
    }
    Ok((entries, length, length < whole))
}

/// The batch at this position; `None` if it is another one, or damaged.
pub(super) fn read(path: &Path, offset: u64, wanted: SpoolRecord) -> io::Result<Option<LineBatch>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let found = next(&mut file)?.filter(|(entry, _)| *entry == wanted);
    Ok(found.map(|(_, batch)| batch))
}

/// `None` at the end of complete records.
fn next(reader: &mut impl Read) -> io::Result<Option<(SpoolRecord, LineBatch)>> {
    let mut head = [0; 8];
    if !fill(reader, &mut head)? {
        return Ok(None);
    }
    let [a, b, c, d, e, f, g, h] = head;
    let (length, sum) = (
        u32::from_le_bytes([a, b, c, d]),
        u32::from_le_bytes([e, f, g, h]),
    );
    if length > MAX_BATCH_BYTES {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    if !fill(reader, &mut bytes)? || checksum(&bytes) != sum {
        return Ok(None);
    }
    let batch = LineBatch::from_bytes(&bytes);
    Ok(batch.map(|batch| (SpoolRecord::new(length, &batch), batch)))
}

/// False if the file ends early.
fn fill(reader: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
