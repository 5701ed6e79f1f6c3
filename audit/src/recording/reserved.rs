//! File with disk space reserved ahead of its end: a full disk shows before bytes are lost.

use std::{
    fs::File,
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Space reserved at a time in bytes.
const RESERVE_STEP_BYTES: u64 = 256 << 10;
/// Space that is left ahead of the end in bytes: two blocks of age, which keeps one in memory.
const MIN_RESERVE_BYTES: u64 = 136 << 10;

/// A file that is written from its begin to its end.
pub(super) struct ReservedFile {
    file: File,
    written: u64,
    reserved: u64,
    is_full: DiskFull,
}

/// Set once a reservation has failed. What was written until then still fits.
#[derive(Debug, Clone, Default)]
pub(super) struct DiskFull(Arc<AtomicBool>);

impl DiskFull {
    /// Reports a full disk.
    pub(super) fn check(&self) -> io::Result<()> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

impl ReservedFile {
    /// Reserves the first space.
    ///
    /// # Errors
    /// The disk is full.
    pub(super) fn new(file: File) -> io::Result<Self> {
        let mut reserved = ReservedFile {
            file,
            written: 0,
            reserved: 0,
            is_full: DiskFull::default(),
        };
        reserved.reserve()?;
        Ok(reserved)
    }

    pub(super) fn disk_full(&self) -> DiskFull {
        self.is_full.clone()
    }

    fn reserve(&mut self) -> io::Result<()> {
        while self.reserved < self.written + MIN_RESERVE_BYTES {
            allocate(&self.file, self.reserved, RESERVE_STEP_BYTES)?;
            self.reserved += RESERVE_STEP_BYTES;
        }
        Ok(())
    }

    /// Gives the space behind the end back, and syncs.
    pub(super) fn finish(self) -> io::Result<()> {
        self.file.set_len(self.written)?;
        self.file.sync_all()
    }
}

impl Write for ReservedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.written += written as u64;
        if self.reserve().is_err() {
            self.is_full.0.store(true, Ordering::Relaxed);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Reserves space without a change of the length. Some file systems cannot: their full disk shows at a write.
#[cfg(target_os = "linux")]
fn allocate(file: &File, offset: u64, length: u64) -> io::Result<()> {
    use rustix::{
        fs::{FallocateFlags, fallocate},
        io::Errno,
    };
    match fallocate(file, FallocateFlags::KEEP_SIZE, offset, length) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        allocated => Ok(allocated?),
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(_: &File, _: u64, _: u64) -> io::Result<()> {
    Ok(())
}
