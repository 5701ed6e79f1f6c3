//! Folder of the rig's files. It lies outside the checkout, because proxies that give up root must reach it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

const PREFIX: &str = "fairlead-net-";

/// `fairlead-net-PID-NUMBER`. It is deleted when dropped; after a panic the next run deletes it.
#[derive(Debug)]
pub struct RigFolder(PathBuf);

impl RigFolder {
    /// Creates a folder and deletes those of earlier runs that have ended.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn new() -> anyhow::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let all = std::env::temp_dir();
        sweep(&all)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = all.join(format!("{PREFIX}{}-{number}", process::id()));
        fs::create_dir(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(Self(path))
    }

    /// Absolute path; it exists until the drop.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for RigFolder {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the rig's logs are kept in {}", self.0.display());
        } else {
            drop(fs::remove_dir_all(&self.0));
        }
    }
}

fn sweep(all: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(all)?.flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let Some((pid, _)) = rest.and_then(|rest| rest.split_once('-')) else {
            continue;
        };
        if pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists() {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
    Ok(())
}
