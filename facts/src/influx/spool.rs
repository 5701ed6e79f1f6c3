//! Spool of batches during an InfluxDB outage: files with checksums, oldest first, durable on
//! return. When full, the oldest file is dropped and counted.
//!
//! All operations block on the disk: never call them on an async thread.

mod file;

use std::{
    collections::VecDeque,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use crate::influx::batch::LineBatch;
use file::{SpoolRecord, append, create, read, scan, sync_folder};

/// Maximum number of files: dropping one loses this share of the spool.
const MAX_FILES: u64 = 16;
/// Bounds of a file's size in bytes.
const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;
const MIN_FILE_BYTES: u64 = 4 * 1024;
/// Maximum number of batches.
const MAX_ENTRIES: usize = 200_000;

/// Position of a batch, in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SpoolPosition {
    pub(super) file: u64,
    pub(super) offset: u64,
}

/// LostBatches batches: damaged, or dropped for capacity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LostBatches {
    pub(super) lines: u64,
    /// Batches with an unknown number of lines.
    pub(super) damaged: u64,
}

pub(super) struct Spool {
    folder: PathBuf,
    max: u64,
    /// Existing files, the current one last.
    files: VecDeque<(u64, u64)>,
    waiting: VecDeque<(SpoolPosition, SpoolRecord)>,
    writes: Option<File>,
    next: u64,
}

impl Spool {
    /// Opens existing files from `from` on; truncates a torn record at the end of a file.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub(super) fn open(
        folder: &Path,
        max: u64,
        from: SpoolPosition,
    ) -> io::Result<(Spool, LostBatches)> {
        let mut spool = Spool {
            folder: folder.to_owned(),
            max,
            files: VecDeque::new(),
            waiting: VecDeque::new(),
            writes: None,
            next: from.file.max(1),
        };
        let mut numbers = Vec::new();
        for found in fs::read_dir(folder)? {
            numbers.extend(number(&found?.path()));
        }
        numbers.sort_unstable();
        let mut lost = LostBatches::default();
        for file in numbers {
            spool.next = spool.next.max(file.saturating_add(1));
            if file < from.file {
                fs::remove_file(spool.path(file))?;
                continue;
            }
            let (entries, length, torn) = scan(&spool.path(file))?;
            lost.damaged += u64::from(torn);
            spool.files.push_back((file, length));
            let mut offset = 0;
            for entry in entries {
                let place = SpoolPosition { file, offset };
                offset += entry.size();
                if place >= from {
                    spool.waiting.push_back((place, entry));
                }
            }
        }
        spool.tidy()?;
        Ok((spool, lost))
    }

    /// Appends batches atomically and durably; returns those dropped for capacity.
    ///
    /// # Errors
    /// The disk is full or failing. Nothing was appended then.
    pub(super) fn append(&mut self, batches: &[LineBatch]) -> io::Result<LostBatches> {
        let records: Vec<(SpoolRecord, Vec<u8>)> = batches.iter().map(SpoolRecord::of).collect();
        let size: u64 = records.iter().map(|(entry, _)| entry.size()).sum();
        let file = self.file_for(size)?;
        let lost = self.free_capacity(size)?;
        let begin = self.files.back().map_or(0, |(_, length)| *length);
        let written = match &mut self.writes {
            Some(writes) => append(writes, begin, &records),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        if let Err(error) = written {
            // Starts a new file: the state after the end of this one is unknown.
            self.writes = None;
            return Err(error);
        }
        let mut offset = begin;
        for (entry, _) in records {
            self.waiting
                .push_back((SpoolPosition { file, offset }, entry));
            offset += entry.size();
        }
        if let Some((_, length)) = self.files.back_mut() {
            *length = offset;
        }
        Ok(lost)
    }

    /// The oldest batch; `None` if the spool is empty. An unreadable one is dropped and counted.
    ///
    /// # Errors
    /// The disk is failing.
    pub(super) fn front(&mut self) -> io::Result<(Option<LineBatch>, LostBatches)> {
        let mut lost = LostBatches::default();
        while let Some((place, entry)) = self.waiting.front().copied() {
            if let Some(batch) = read(&self.path(place.file), place.offset, entry)? {
                return Ok((Some(batch), lost));
            }
            lost.lines += u64::from(entry.lines);
            lost.damaged += 1;
            self.pop()?;
        }
        Ok((None, lost))
    }

    /// Removes the oldest batch after delivery.
    ///
    /// # Errors
    /// An empty file cannot be removed.
    pub(super) fn pop(&mut self) -> io::Result<()> {
        self.waiting.pop_front();
        self.tidy()
    }

    /// Start position for the next [`Spool::open`].
    pub(super) fn place(&self) -> SpoolPosition {
        let end = SpoolPosition {
            file: self.next,
            offset: 0,
        };
        self.waiting.front().map_or(end, |(place, _)| *place)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Size on disk in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, length)| length).sum()
    }

    /// Time of the oldest batch, in milliseconds since 1970.
    pub(super) fn oldest(&self) -> Option<i64> {
        self.waiting.front().map(|(_, entry)| entry.at)
    }

    fn path(&self, file: u64) -> PathBuf {
        self.folder.join(format!("{file:020}.spool"))
    }

    /// The current file; a new one if that is full.
    fn file_for(&mut self, size: u64) -> io::Result<u64> {
        let full = (self.max / MAX_FILES).clamp(MIN_FILE_BYTES, MAX_FILE_BYTES);
        if let (Some(_), Some((file, length))) = (&self.writes, self.files.back())
            && (*length == 0 || length + size <= full)
        {
            return Ok(*file);
        }
        let file = self.next;
        self.writes = Some(create(&self.path(file))?);
        self.next += 1;
        self.files.push_back((file, 0));
        sync_folder(&self.folder)?;
        Ok(file)
    }

    /// Drops the oldest files, never the current one.
    fn free_capacity(&mut self, size: u64) -> io::Result<LostBatches> {
        let mut lost = LostBatches::default();
        while self.files.len() > 1
            && (self.bytes() + size > self.max || self.waiting.len() >= MAX_ENTRIES)
        {
            let Some((file, _)) = self.files.front().copied() else {
                break;
            };
            fs::remove_file(self.path(file))?;
            self.files.pop_front();
            while let Some((_, entry)) = self.waiting.pop_front_if(|(it, _)| it.file <= file) {
                lost.lines += u64::from(entry.lines);
            }
        }
        Ok(lost)
    }

    /// Removes files that were read completely.
    fn tidy(&mut self) -> io::Result<()> {
        let first = self.waiting.front().map(|(place, _)| place.file);
        while let Some((file, _)) = self.files.front().copied()
            && first.is_none_or(|first| file < first)
        {
            fs::remove_file(self.path(file))?;
            self.files.pop_front();
        }
        if self.files.is_empty() {
            self.writes = None;
        }
        Ok(())
    }
}

fn number(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    name.strip_suffix(".spool")?.parse().ok()
}

#[cfg(test)]
mod tests;
