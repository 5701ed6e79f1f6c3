//! Bounded cache of bytes by digest: in memory, and in a folder that survives a restart.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use bytes::{Bytes, BytesMut};
use tracing::warn;

/// Bytes in memory.
const MAX_MEMORY_BYTES: usize = 16 * 1024 * 1024;
/// Bytes in the folder.
const MAX_FOLDER_BYTES: u64 = 256 * 1024 * 1024;

pub(super) struct Cache {
    memory: Mutex<Memory>,
    folder: Option<PathBuf>,
}

#[derive(Default)]
struct Memory {
    entries: HashMap<String, (u64, Bytes)>,
    size: usize,
    clock: u64,
}

impl Cache {
    pub(super) fn new(folder: Option<PathBuf>) -> Self {
        Self {
            memory: Mutex::default(),
            folder,
        }
    }

    pub(super) async fn get(&self, name: &str) -> Option<Bytes> {
        if let Some(bytes) = self.memory(|memory| memory.get(name)) {
            return Some(bytes);
        }
        let path = self.path(name)?;
        let bytes: Bytes = tokio::fs::read(path).await.ok()?.into();
        self.memory(|memory| memory.put(name, &bytes));
        Some(bytes)
    }

    pub(super) async fn put(&self, name: &str, bytes: Bytes) {
        self.memory(|memory| memory.put(name, &bytes));
        let (Some(path), Some(folder)) = (self.path(name), self.folder.clone()) else {
            return;
        };
        let writing = tokio::task::spawn_blocking(move || write(&folder, &path, &bytes));
        if let Ok(Err(error)) = writing.await {
            // The content can be fetched again.
            warn!(%error, "delivery cache cannot be written");
        }
    }

    /// Bytes of an artifact that an earlier fetch has left, and a place for further ones.
    pub(super) fn partial(&self, name: &str) -> Partial<'_> {
        // Without the prefix of a digest, so that it never is a name of whole content.
        let name = format!("partial {name}");
        let bytes = self.memory(|memory| memory.remove(&name));
        Partial {
            bytes: bytes.map(BytesMut::from).unwrap_or_default(),
            cache: self,
            name,
        }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        // A digest has only safe characters after its prefix.
        let file = name.strip_prefix("sha256:")?;
        Some(self.folder.as_ref()?.join(file))
    }

    fn memory<T>(&self, work: impl FnOnce(&mut Memory) -> T) -> T {
        work(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// First bytes of an artifact. Dropping it keeps them for the next fetch, within the limit of the memory.
pub(super) struct Partial<'a> {
    cache: &'a Cache,
    name: String,
    pub(super) bytes: BytesMut,
}

impl Partial<'_> {
    /// The bytes, which are not kept.
    pub(super) fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.bytes).freeze()
    }
}

impl Drop for Partial<'_> {
    fn drop(&mut self) {
        let bytes = self.take();
        if !bytes.is_empty() {
            self.cache.memory(|memory| memory.put(&self.name, &bytes));
        }
    }
}

impl Memory {
    fn remove(&mut self, name: &str) -> Option<Bytes> {
        let (_, bytes) = self.entries.remove(name)?;
        self.size -= bytes.len();
        Some(bytes)
    }

    fn get(&mut self, name: &str) -> Option<Bytes> {
        self.clock += 1;
        let (used, bytes) = self.entries.get_mut(name)?;
        *used = self.clock;
        Some(bytes.clone())
    }

    fn put(&mut self, name: &str, bytes: &Bytes) {
        self.clock += 1;
        if bytes.len() > MAX_MEMORY_BYTES {
            return;
        }
        let entry = (self.clock, bytes.clone());
        self.size += bytes.len();
        if let Some((_, old)) = self.entries.insert(name.to_owned(), entry) {
            self.size -= old.len();
        }
        while self.size > MAX_MEMORY_BYTES {
            let oldest = self.entries.iter().min_by_key(|(_, (used, _))| *used);
            let Some(oldest) = oldest.map(|(name, _)| name.clone()) else {
                return;
            };
            if let Some((_, bytes)) = self.entries.remove(&oldest) {
                self.size -= bytes.len();
            }
        }
    }
}

/// Writes a file, and deletes the oldest ones beyond the limit.
fn write(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let part = path.with_extension("part");
    std::fs::write(&part, bytes)?;
    std::fs::rename(&part, path)?;
    let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        files.push((metadata.modified()?, metadata.len(), entry.path()));
    }
    files.sort();
    let mut size: u64 = files.iter().map(|(_, length, _)| length).sum();
    for (_, length, old) in files {
        if size <= MAX_FOLDER_BYTES || old == path {
            break;
        }
        std::fs::remove_file(old)?;
        size -= length;
    }
    Ok(())
}
