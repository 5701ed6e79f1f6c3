//! Segments: numbered files `00000001.jsonl` of one folder, which continue one chain.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    chain::{ChainEnd, hex, split, unhex},
    event::{AuditEvent, EventKind},
};

const SUFFIX: &str = ".jsonl";
const HEAD_FILE: &str = "head.json";
/// Limit of one line in bytes; longer ones are no lines of this log.
pub(crate) const MAX_LINE_BYTES: u64 = 256 * 1024;

/// Creates a folder that only its owner can open.
pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Locks a folder for one writer; the lock ends with the file.
pub(crate) fn lock(dir: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let file = options.open(dir.join("lock"))?;
    file.try_lock()
        .map_err(|_| io::Error::other("another process writes this log"))?;
    Ok(file)
}

/// Path of a segment.
pub(crate) fn path_of(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:08}{SUFFIX}"))
}

/// Numbers of all segments in a folder, ascending.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn numbers(dir: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// First line of a segment.
pub(crate) fn first_event(dir: &Path, number: u64) -> io::Result<Option<AuditEvent>> {
    let file = File::open(path_of(dir, number))?;
    let mut line = Vec::new();
    BufReader::new(file)
        .take(MAX_LINE_BYTES)
        .read_until(b'\n', &mut line)?;
    let event = serde_json::from_slice::<AuditEvent>(&line).ok();
    Ok(event.filter(|event| event.kind == EventKind::Segment))
}

/// Segment that is open for appending.
pub(crate) struct OpenSegment {
    pub(crate) number: u64,
    file: File,
    /// Bytes of complete lines.
    pub(crate) length: u64,
    /// Time of its first line, in seconds since 1970.
    pub(crate) since: i64,
    #[cfg(test)]
    pub(crate) disk_full: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl OpenSegment {
    /// Creates a segment, which must not exist.
    pub(crate) fn create(dir: &Path, number: u64, since: i64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.create_new(true).append(true).mode(0o600);
        let file = options.open(path_of(dir, number))?;
        // The name of the file must survive a crash as well.
        File::open(dir)?.sync_all()?;
        Ok(OpenSegment::of(number, file, 0, since))
    }

    fn of(number: u64, file: File, length: u64, since: i64) -> Self {
        OpenSegment {
            number,
            file,
            length,
            since,
            #[cfg(test)]
            disk_full: std::sync::Arc::default(),
        }
    }

    /// Appends complete lines, all or nothing.
    pub(crate) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let written = self.write(lines);
        if written.is_err() {
            // A part of the lines may be there.
            self.file.set_len(self.length)?;
        } else {
            self.length += lines.len() as u64;
        }
        written
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        #[cfg(test)]
        if self.disk_full.load(std::sync::atomic::Ordering::SeqCst) {
            let part = lines.get(..lines.len() / 2).unwrap_or_default();
            self.file.write_all(part)?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_all(lines)
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// State of a folder that is opened for appending.
pub(crate) struct Resumed {
    pub(crate) end: ChainEnd,
    /// The last segment, if there is one.
    pub(crate) segment: Option<OpenSegment>,
    /// Bytes of an incomplete last line that were removed.
    pub(crate) cut: u64,
}

/// Continues the last segment of a folder. An incomplete last line, left by a crash, is removed.
///
/// # Errors
/// The folder cannot be read or written, or its last line is not one of this log.
pub(crate) fn resume(dir: &Path) -> io::Result<Resumed> {
    let Some(&number) = numbers(dir)?.last() else {
        return Ok(Resumed {
            end: ChainEnd::EMPTY,
            segment: None,
            cut: 0,
        });
    };
    let path = path_of(dir, number);
    let damaged = |cause: &str| io::Error::other(format!("{}: {cause}", path.display()));
    let mut file = OpenOptions::new().read(true).append(true).open(&path)?;
    let size = file.seek(SeekFrom::End(0))?;
    let tail_begin = size.saturating_sub(2 * MAX_LINE_BYTES);
    file.seek(SeekFrom::Start(tail_begin))?;
    let mut tail = Vec::new();
    (&file).take(2 * MAX_LINE_BYTES).read_to_end(&mut tail)?;
    let whole = tail
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    let cut = (tail.len() - whole) as u64;
    let length = size - cut;
    if cut > 0 {
        file.set_len(length)?;
    }
    if length == 0 {
        // A crash came before the first line: the segment begins again.
        fs::remove_file(&path)?;
        let mut before = resume(dir)?;
        before.cut += cut;
        return Ok(before);
    }
    let lines = tail.get(..whole.saturating_sub(1)).unwrap_or_default();
    let last = lines
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    let last = lines.get(last..).unwrap_or_default();
    let (_, hash) = split(last).ok_or_else(|| damaged("its last line has no hash"))?;
    let event: AuditEvent =
        serde_json::from_slice(last).map_err(|_| damaged("its last line is no event"))?;
    let first = first_event(dir, number)?.ok_or_else(|| damaged("its first line is no head"))?;
    let since =
        time::OffsetDateTime::parse(&first.at, &time::format_description::well_known::Rfc3339);
    let since = since.map_err(|_| damaged("its head has no time"))?;
    let end = ChainEnd {
        seq: event.seq,
        hash,
    };
    Ok(Resumed {
        end,
        segment: Some(OpenSegment::of(
            number,
            file,
            length,
            since.unix_timestamp(),
        )),
        cut,
    })
}

/// End of the chain as last noted in `head.json`; shows that lines are missing at the end.
#[derive(Debug, Serialize, Deserialize)]
struct HeadFile {
    seq: u64,
    hash: String,
}

/// Notes the end of the chain.
pub(crate) fn write_head(dir: &Path, end: &ChainEnd) -> io::Result<()> {
    let head = HeadFile {
        seq: end.seq,
        hash: hex(&end.hash),
    };
    let text = serde_json::to_vec(&head).map_err(io::Error::other)?;
    replace(&dir.join(HEAD_FILE), &text)
}

/// End of the chain as noted; `None` if it was never noted.
pub(crate) fn read_head(dir: &Path) -> io::Result<Option<ChainEnd>> {
    let text = match fs::read(dir.join(HEAD_FILE)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let head: HeadFile = serde_json::from_slice(&text)?;
    let hash = unhex(&head.hash).ok_or_else(|| io::Error::other("head.json has no hash"))?;
    Ok(Some(ChainEnd {
        seq: head.seq,
        hash,
    }))
}

/// Replaces a file at once; only its owner can read it.
pub(crate) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true).mode(0o600);
    options.open(&temporary)?.write_all(text)?;
    fs::rename(temporary, path)
}
