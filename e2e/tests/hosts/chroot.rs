//! A root file system of its own for hub and agent: `unshare`, mounts, `chroot`.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
};

use anyhow::ensure;
use fairlead_e2e::Launch;
use tempfile::TempDir;

/// Mounts the root `$1` read-only and the folder `$2` into it, at its own path, and becomes user `$3` and the program.
const ENTER_SCRIPT: &str = r#"
set -eu
root=$1 folder=$2 user=$3
shift 3
mount --bind "$root" "$root"
mount --bind "$folder" "$root$folder"
mount -o remount,bind,ro "$root"
exec chroot --userspec="$user:$user" "$root" "$@"
"#;

/// A root file system, and one writable folder with the same path inside and outside.
pub(crate) struct Chroot {
    root: PathBuf,
    folder: TempDir,
    user: u32,
}

impl Chroot {
    /// `root` gets an empty folder as mount point; `user` runs the programs.
    pub(crate) fn new(root: &Path, user: u32) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir_in("/tmp")?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        chown(folder.path(), Some(user), Some(user))?;
        let inside = folder.path().strip_prefix("/")?;
        fs::create_dir_all(root.join(inside))?;
        Ok(Chroot {
            root: root.to_owned(),
            folder,
            user,
        })
    }

    /// The writable folder.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Id of the user.
    pub(crate) fn user(&self) -> u32 {
        self.user
    }

    /// Writes a file that the programs can read.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> anyhow::Result<PathBuf> {
        let path = self.folder().join(name);
        fs::write(&path, content)?;
        chown(&path, Some(self.user), Some(self.user))?;
        Ok(path)
    }

    /// A program of the root file system, by its path there. The started process is the parent of the program, and
    /// the program ends with it.
    pub(crate) fn launch(&self, program: &str) -> Launch {
        // Programs that a launch puts before its own do not exist in there, so the whole entrance is one program.
        Launch::new("unshare")
            .args(["--mount", "--propagation", "private", "--fork"])
            .args(["--kill-child", "--", "sh", "-c", ENTER_SCRIPT, "sh"])
            .args([self.root.as_os_str(), self.folder().as_os_str()])
            .args([self.user.to_string().as_str(), program])
            .env("HOME", self.folder())
    }

    /// Output of a program that ends by itself.
    pub(crate) fn run(&self, launch: Launch) -> anyhow::Result<String> {
        let output = launch.command().output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {errors}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    }
}
