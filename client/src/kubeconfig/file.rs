//! Kubeconfig files: atomic writes with mode 0600, under kubectl's lock.

use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use super::{
    error::KubeconfigError,
    merge,
    sync::{self, SyncOutcome},
};
use crate::{environment::Environment, files};

/// File that kubectl writes to: the first of `KUBECONFIG`, else `~/.kube/config`.
///
/// # Errors
/// [`KubeconfigError::NoPlace`]
pub fn default_path(environment: &Environment) -> Result<PathBuf, KubeconfigError> {
    let listed = environment.get("KUBECONFIG").unwrap_or_default();
    if let Some(first) = listed.split(':').find(|it| !it.is_empty()) {
        return Ok(first.into());
    }
    let home = environment.get("HOME").map(Path::new);
    let home = home.ok_or(KubeconfigError::NoPlace)?;
    Ok(home.join(".kube/config"))
}

/// Outcome of a merge.
pub struct MergeOutcome {
    /// Copy of the previous file; `None` for a new or unchanged file.
    pub backup: Option<PathBuf>,
    /// True if the file was written.
    pub changed: bool,
}

/// Merges the entries of a hub into a file that may not exist yet.
///
/// # Errors
/// [`KubeconfigError`]
pub fn merge_into(
    path: &Path,
    ours: &Value,
    hub: &str,
    set_current: bool,
) -> Result<MergeOutcome, KubeconfigError> {
    // The target of a link is locked and written, like kubectl does.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let _lock = Lock::acquire(path)?;
    let text = read(path)?;
    let there = match &text {
        Some(text) => parse(path, text)?,
        None => Value::Null,
    };
    let before = if there.is_null() {
        Value::Object(Map::new())
    } else {
        there
    };
    let after = merge::merge(before.clone(), ours, hub, set_current);
    let after = after.map_err(|source| KubeconfigError::Merge {
        path: path.clone(),
        source,
    })?;
    if after == before {
        return Ok(MergeOutcome {
            backup: None,
            changed: false,
        });
    }
    let backup = match &text {
        None => None,
        Some(text) => {
            let backup = with_suffix(path, ".fairlead-backup");
            files::write(&backup, text)?;
            Some(backup)
        }
    };
    files::write(path, &to_yaml(&after)?)?;
    Ok(MergeOutcome {
        backup,
        changed: true,
    })
}

/// Synchronises the contexts of a hub in a file that may not exist yet. The mode of the file stays.
///
/// # Errors
/// [`KubeconfigError`]
pub fn sync_into(path: &Path, ours: &Value, hub: &str) -> Result<SyncOutcome, KubeconfigError> {
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let _lock = Lock::acquire(path)?;
    let there = match read(path)? {
        Some(text) => parse(path, &text)?,
        None => Value::Null,
    };
    let before = match there {
        Value::Null => Value::Object(Map::new()),
        there => there,
    };
    let synced = sync::sync(before.clone(), ours, hub);
    let (after, outcome) = synced.map_err(|source| KubeconfigError::Merge {
        path: path.clone(),
        source,
    })?;
    if after != before {
        let mode = fs::metadata(path).map_or(0o600, |it| it.permissions().mode() & 0o777);
        files::write_with_mode(path, &to_yaml(&after)?, mode)?;
    }
    Ok(outcome)
}

/// True if there is a regular file with entries that do not belong to the hub.
///
/// # Errors
/// [`KubeconfigError::Unusable`] if the file cannot be read.
pub fn has_other_entries(path: &Path, hub: &str) -> Result<bool, KubeconfigError> {
    let is_regular = fs::metadata(path).is_ok_and(|it| it.is_file());
    let there = read(path)?.filter(|_| is_regular);
    let is_ours = |text: &String| parse(path, text).is_ok_and(|it| merge::is_only_of(&it, hub));
    Ok(there.is_some_and(|text| !is_ours(&text)))
}

/// Content of the file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<String>, KubeconfigError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(KubeconfigError::unusable(path, error)),
    }
}

/// YAML of a kubeconfig.
pub(super) fn to_yaml(config: &Value) -> Result<String, KubeconfigError> {
    serde_saphyr::to_string(config).map_err(KubeconfigError::serialize)
}

fn parse(path: &Path, text: &str) -> Result<Value, KubeconfigError> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_saphyr::from_str(text).map_err(|error| KubeconfigError::unusable(path, error))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// kubectl's lock: the file FILE.lock, created exclusively.
struct Lock(PathBuf);

impl Lock {
    fn acquire(path: &Path) -> Result<Self, KubeconfigError> {
        let lock = with_suffix(path, ".lock");
        if let Some(folder) = lock.parent() {
            fs::create_dir_all(folder).map_err(|error| KubeconfigError::lock(folder, error))?;
        }
        match fs::File::create_new(&lock) {
            Ok(_) => Ok(Lock(lock)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Err(KubeconfigError::Locked(lock))
            }
            Err(error) => Err(KubeconfigError::lock(&lock, error)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A lock that cannot be removed is reported to the next writer.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use fairlead_api::{Code, Failure};
    use serde_json::json;

    use super::*;

    fn ours() -> Value {
        json!({
            "clusters": [{ "name": "c-1@hub", "cluster": { "server": "https://hub" } }],
            "contexts": [{ "name": "demo@hub", "context": { "cluster": "c-1@hub", "user": "fairlead@hub" } }],
            "users": [{ "name": "fairlead@hub", "user": { "token": "t" } }],
            "current-context": "demo@hub",
        })
    }

    const OTHERS: &str = "# mine\nkind: Config\ncurrent-context: kind\nusers:\n- name: kind\n  user: {password: '0123', extra: {a: [1, \"on\"]}}\n";

    #[test]
    fn merge_keeps_backup_and_link_and_sets_mode_0600() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("real");
        fs::write(&real, OTHERS).unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o644)).unwrap();
        let path = folder.path().join("config");
        symlink(&real, &path).unwrap();
        let merged = merge_into(&path, &ours(), "hub", false).unwrap();
        let backup = merged.backup.unwrap();
        assert_eq!(fs::read_to_string(&backup).unwrap(), OTHERS);
        for file in [&real, &backup] {
            assert_eq!(fs::metadata(file).unwrap().mode() & 0o777, 0o600);
        }
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
        let text = fs::read_to_string(&path).unwrap();
        let now: Value = serde_saphyr::from_str(&text).unwrap();
        let kept = json!({ "password": "0123", "extra": { "a": [1, "on"] } });
        assert_eq!(now["users"][0]["user"], kept);
        assert_eq!(now["current-context"], "kind");

        let again = merge_into(&path, &ours(), "hub", false).unwrap();
        assert!(!again.changed && again.backup.is_none());
        assert_eq!(fs::read_to_string(&backup).unwrap(), OTHERS);
        assert!(!with_suffix(&real, ".lock").exists());
    }

    #[test]
    fn synchronisation_keeps_the_mode_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        fs::write(&path, OTHERS).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let outcome = sync_into(&path, &ours(), "hub").unwrap();
        assert_eq!(outcome.added, ["demo@hub"]);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        let now: Value = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(now["current-context"], "kind");
        let new = folder.path().join("new");
        sync_into(&new, &ours(), "hub").unwrap();
        assert_eq!(fs::metadata(&new).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn locked_or_damaged_file_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/config");
        assert!(merge_into(&path, &ours(), "hub", false).unwrap().changed);
        let before = fs::read_to_string(&path).unwrap();
        fs::write(with_suffix(&path, ".lock"), "").unwrap();
        let refused = merge_into(&path, &ours(), "hub", false)
            .err()
            .map(Failure::from);
        let refused = refused.unwrap();
        assert_eq!(refused.code, Code::InUse);
        fs::remove_file(with_suffix(&path, ".lock")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
        fs::write(&path, "a: [").unwrap();
        let refused = merge_into(&path, &ours(), "hub", false)
            .err()
            .map(Failure::from);
        let refused = refused.unwrap();
        assert_eq!(refused.code, Code::BadKubeconfig);
        assert_eq!(fs::read_to_string(&path).unwrap(), "a: [");
    }

    #[test]
    fn first_file_of_kubeconfig_is_the_one_that_is_written() {
        let of = |pairs: &[(&str, &str)]| default_path(&Environment::of(pairs));
        let both = [("KUBECONFIG", ":/a:/b"), ("HOME", "/home/ann")];
        assert_eq!(of(&both).unwrap(), Path::new("/a"));
        let home = of(&[("HOME", "/home/ann")]).unwrap();
        assert_eq!(home, Path::new("/home/ann/.kube/config"));
        assert!(matches!(of(&[]), Err(KubeconfigError::NoPlace)));
    }
}
