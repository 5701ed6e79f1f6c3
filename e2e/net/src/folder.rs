//! Where a rig keeps its files: below the machine's folder for such things and not in the checkout, because proxies give up root and
//! must reach them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

const PREFIX: &str = "fairlead-net-";

/// `fairlead-net-PID-NUMBER`, removed when dropped; after a panic it is kept until the next run.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A new one. What runs that are gone have left is removed.
    ///
    /// # Errors
    /// It cannot be made.
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

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
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
