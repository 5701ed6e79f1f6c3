//! Folders of runs: private, on memory, removed at the end.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use serde_json::json;
use tracing::{info, warn};

use crate::{
    names::FilePath,
    processes,
    request::{ClusterAccess, RunKey},
};

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
const LOCK_FILE: &str = "lock";
const RUNS_FOLDER: &str = "runs";
const PLACE_FILE: &str = "place";
const PRESSURE_FILE: &str = "pressure";
/// Name of the post-renderer as a plugin of Helm.
pub(crate) const POST_RENDERER: &str = "fairlead";
/// Variable with the program of the post-renderer.
pub(crate) const POST_RENDERER_VARIABLE: &str = "FAIRLEAD_POST_RENDERER";
/// Variable with the file of values that the post-renderer keeps.
pub(crate) const KEPT_VARIABLE: &str = "FAIRLEAD_KEPT";

/// A folder that belongs to one process of this user.
pub(crate) struct PrivateFolder {
    path: PathBuf,
    /// Locked until this value is dropped or the process ends.
    lock: File,
}

impl PrivateFolder {
    /// Makes the folder, or takes one of this user over, closes it to others, and locks it.
    ///
    /// # Errors
    /// The folder belongs to another user, or another process has locked it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(FOLDER_MODE).create(path)?;
        // In a folder such as /dev/shm another user may have made the name, or a link.
        let found = fs::symlink_metadata(path)?;
        if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
            let text = format!(
                "folder {} is a link or belongs to another user",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let path = path.canonicalize()?;
        fs::set_permissions(&path, fs::Permissions::from_mode(FOLDER_MODE))?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        let lock = options.mode(FILE_MODE).open(path.join(LOCK_FILE))?;
        match lock.try_lock() {
            Ok(()) => Ok(PrivateFolder { path, lock }),
            Err(TryLockError::Error(error)) => Err(error),
            Err(TryLockError::WouldBlock) => {
                let text = format!("another runner uses {}", path.display());
                Err(io::Error::new(io::ErrorKind::ResourceBusy, text))
            }
        }
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // Closing alone would keep the lock as long as a child holds a copy, from fork to exec.
        if let Err(error) = self.lock.unlock() {
            warn!(%error, "cannot unlock a folder");
        }
    }
}

/// Parent of the folders of all runs.
pub(crate) struct WorkRoot {
    folder: PrivateFolder,
    place: String,
    was_killed_for_memory: bool,
}

impl WorkRoot {
    /// Opens the folder, kills processes of an earlier runner in it, and removes their files.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let folder = PrivateFolder::open(path)?;
        let runs = folder.path.join(RUNS_FOLDER);
        let killed = processes::end_all_in(&runs);
        if killed > 0 {
            info!(killed, "processes of an earlier runner killed");
        }
        match fs::remove_dir_all(&runs) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        make_folder(&runs)?;
        let place = place(&folder.path.join(PLACE_FILE))?;
        let pressure = folder.path.join(PRESSURE_FILE);
        let was_killed_for_memory = pressure.exists();
        if was_killed_for_memory {
            fs::remove_file(&pressure)?;
        }
        Ok(WorkRoot {
            folder,
            place,
            was_killed_for_memory,
        })
    }

    /// Whether the runner before this one ended while its programs used most of the memory.
    pub(crate) fn was_killed_for_memory(&self) -> bool {
        self.was_killed_for_memory
    }

    /// Marks the folder while programs use most of the memory.
    pub(crate) fn set_pressure(&self, is_high: bool) {
        let path = self.folder.path.join(PRESSURE_FILE);
        let changed = match (is_high, path.exists()) {
            (true, false) => fs::write(&path, []),
            (false, true) => fs::remove_file(&path),
            _ => Ok(()),
        };
        if let Err(error) = changed {
            warn!(%error, "cannot note the use of memory");
        }
    }

    /// Random name of this folder. A later runner on it has ended the programs of all earlier ones.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Makes the folder of a run.
    pub(crate) fn make(&self, key: &RunKey) -> io::Result<WorkFolder> {
        let path = self.folder.path.join(RUNS_FOLDER).join(key.to_string());
        make_folder(&path)?;
        // From here on the folder is removed if a step fails.
        let folder = WorkFolder { path };
        for name in ["files", "home", "tmp"] {
            make_folder(&folder.path.join(name))?;
        }
        Ok(folder)
    }
}

/// Folder of one run, removed when it is dropped.
pub(crate) struct WorkFolder {
    path: PathBuf,
}

impl WorkFolder {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Files of the request.
    pub(crate) fn files(&self) -> PathBuf {
        self.path.join("files")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    pub(crate) fn tmp(&self) -> PathBuf {
        self.path.join("tmp")
    }

    /// Plugins of Helm: none but the post-renderer.
    pub(crate) fn plugins(&self) -> PathBuf {
        self.home().join("plugins")
    }

    /// Makes the post-renderer known to Helm, which takes plugins only. Variables of the environment name program and file,
    /// because Helm expands each dollar sign.
    pub(crate) fn write_post_renderer(&self) -> io::Result<()> {
        let folder = self.plugins().join(POST_RENDERER);
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(FOLDER_MODE).create(&folder)?;
        let command = json!({
            "command": format!("${{{POST_RENDERER_VARIABLE}}}"),
            "args": ["post-render", format!("${{{KEPT_VARIABLE}}}")],
        });
        let plugin = json!({
            "apiVersion": "v1",
            "type": "postrenderer/v1",
            "name": POST_RENDERER,
            "version": "1.0.0",
            "runtime": "subprocess",
            "runtimeConfig": { "platformCommand": [command] },
        });
        replace(&folder.join("plugin.yaml"), plugin.to_string().as_bytes())
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.path.join("kubeconfig")
    }

    /// Makes a file of the request, with its folders. A second one of the same path is an error.
    pub(crate) fn create(&self, path: &FilePath) -> io::Result<File> {
        let path = self.files().join(path.to_path());
        if let Some(parent) = path.parent() {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(FOLDER_MODE).create(parent)?;
        }
        let mut options = OpenOptions::new();
        options.create_new(true).write(true);
        options.mode(FILE_MODE).open(path)
    }

    /// Writes the kubeconfig, the CA and the token.
    pub(crate) fn write_access(&self, access: &ClusterAccess) -> io::Result<()> {
        let ca_file = match &access.ca {
            None => None,
            Some(pem) => {
                let path = self.path.join("ca.pem");
                replace(&path, pem.as_bytes())?;
                Some(path)
            }
        };
        self.replace_token(&access.token)?;
        let token_file = self.path.join("token");
        let kubeconfig = access.kubeconfig(&token_file, ca_file.as_deref());
        replace(&self.kubeconfig(), kubeconfig.as_bytes())
    }

    /// Replaces the token: a reader finds the old one or the new one.
    pub(crate) fn replace_token(&self, token: &str) -> io::Result<()> {
        replace(&self.path.join("token"), token.as_bytes())
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            warn!(%error, "cannot remove the folder of a run");
        }
    }
}

fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(FOLDER_MODE).create(path)
}

fn place(path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Ok(place) if !place.is_empty() => return Ok(place),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let place = random_name()?;
    replace(path, place.as_bytes())?;
    Ok(place)
}

/// A random UUID.
pub(crate) fn random_name() -> io::Result<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    Ok(id.trim().to_owned())
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true);
    let mut file = options.mode(FILE_MODE).open(&draft)?;
    file.write_all(content)?;
    fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> RunKey {
        "run-01ARZ3NDEKTSV4RRFFQ69G5FAV.1".parse().unwrap()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn folder_of_a_run_is_private_and_goes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = WorkRoot::open(&dir.path().join("work")).unwrap();
        let folder = root.make(&key()).unwrap();
        let path: FilePath = "chart/templates/a.yaml".parse().unwrap();
        folder.create(&path).unwrap().write_all(b"a").unwrap();
        assert!(folder.create(&path).is_err(), "a file is written once");
        folder.replace_token("one").unwrap();
        folder.replace_token("two").unwrap();
        let token = folder.path().join("token");
        assert_eq!(fs::read_to_string(&token).unwrap(), "two");
        assert_eq!(mode(&token), 0o600);
        assert_eq!(mode(&folder.files().join("chart/templates")), 0o700);
        assert_eq!(mode(&folder.files().join("chart/templates/a.yaml")), 0o600);
        let path = folder.path().to_owned();
        assert!(root.make(&key()).is_err(), "a folder belongs to one run");
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn link_is_no_private_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let refused = PrivateFolder::open(&link).map(drop).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    }

    #[test]
    fn folder_has_one_owner_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("work");
        let first = WorkRoot::open(&path).unwrap();
        let second = WorkRoot::open(&path).map(drop).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::ResourceBusy);
        // A child between fork and exec holds the same open file.
        let of_child = first.folder.lock.try_clone().unwrap();
        drop(first);
        WorkRoot::open(&path).unwrap();
        drop(of_child);
    }

    #[test]
    fn files_and_processes_of_an_earlier_runner_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("work");
        let root = WorkRoot::open(&path).unwrap();
        let folder = root.make(&key()).unwrap();
        let mut child = std::process::Command::new("/bin/sleep")
            .arg("600")
            .current_dir(folder.files())
            .spawn()
            .unwrap();
        let left = folder.path().to_owned();
        std::mem::forget(folder);
        let place = root.place().to_owned();
        drop(root);
        let again = WorkRoot::open(&path).unwrap();
        assert_eq!(again.place(), place);
        assert!(!again.was_killed_for_memory());
        again.set_pressure(true);
        again.set_pressure(true);
        drop(again);
        let again = WorkRoot::open(&path).unwrap();
        assert!(again.was_killed_for_memory());
        drop(again);
        assert!(!WorkRoot::open(&path).unwrap().was_killed_for_memory());
        assert!(!child.wait().unwrap().success());
        assert!(!left.exists());
    }
}
