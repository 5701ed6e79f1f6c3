//! One file of the spool: records of length, checksum and batch, one behind the other.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use flate2::Crc;

use crate::influx::batch::Batch;

/// Before each batch: its length and its checksum, of 4 bytes each.
const HEAD: u64 = 8;
/// The longest batch that is believed.
const LONGEST: u32 = 8 * 1024 * 1024;

/// What is remembered of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    length: u32,
    pub(super) lines: u32,
    pub(super) at: i64,
}

impl Entry {
    /// With the record itself.
    pub(super) fn of(batch: &Batch) -> (Entry, Vec<u8>) {
        let bytes = batch.to_bytes();
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut record = Vec::with_capacity(bytes.len() + 8);
        record.extend(length.to_le_bytes());
        record.extend(checksum(&bytes).to_le_bytes());
        record.extend(bytes);
        (Entry::new(length, batch), record)
    }

    fn new(length: u32, batch: &Batch) -> Entry {
        Entry {
            length,
            lines: u32::try_from(batch.lengths.len()).unwrap_or(u32::MAX),
            at: batch.at,
        }
    }

    /// Bytes in the file.
    pub(super) fn size(&self) -> u64 {
        HEAD + u64::from(self.length)
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// One that is not there yet, or was left behind without anything in it.
pub(super) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true).mode(0o600);
    options.open(path)
}

/// A file that was just made is in its folder when this is done.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Behind `begin`; the file ends there if it cannot be done.
pub(super) fn append(file: &mut File, begin: u64, records: &[(Entry, Vec<u8>)]) -> io::Result<()> {
    let mut write = || {
        file.seek(SeekFrom::Start(begin))?;
        for (_, record) in records {
            file.write_all(record)?;
        }
        file.sync_data()
    };
    let written = write();
    if written.is_err() {
        // What is left of it would be cut off when it is read.
        let _ = file.set_len(begin);
    }
    written
}

/// What is in a file, how long that is, and whether something behind it had to be cut off.
pub(super) fn scan(path: &Path) -> io::Result<(Vec<Entry>, u64, bool)> {
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

/// The batch at this place; None if it is another one, or damaged.
pub(super) fn read(path: &Path, offset: u64, wanted: Entry) -> io::Result<Option<Batch>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let found = next(&mut file)?.filter(|(entry, _)| *entry == wanted);
    Ok(found.map(|(_, batch)| batch))
}

/// None at the end of what is whole.
fn next(reader: &mut impl Read) -> io::Result<Option<(Entry, Batch)>> {
    let mut head = [0; 8];
    if !fill(reader, &mut head)? {
        return Ok(None);
    }
    let [a, b, c, d, e, f, g, h] = head;
    let (length, sum) = (
        u32::from_le_bytes([a, b, c, d]),
        u32::from_le_bytes([e, f, g, h]),
    );
    if length > LONGEST {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    if !fill(reader, &mut bytes)? || checksum(&bytes) != sum {
        return Ok(None);
    }
    let batch = Batch::from_bytes(&bytes);
    Ok(batch.map(|batch| (Entry::new(length, &batch), batch)))
}

/// False if it ends before.
fn fill(reader: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
