//! Identity in a directory (0700) of files (0600). Each file is replaced as a whole: after a crash the old or
//! the new one exists.

use fairlead_runtime::atomic_file;
use std::{
    fs::{self, DirBuilder, File},
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use secrecy::{ExposeSecret, SecretString};

use super::{error::IdentityStoreError, store::Documents};

const IDENTITY_FILE: &str = "identity.json";
const HUBS_FILE: &str = "hubs.json";
const PENDING_KEY_FILE: &str = "pending.key";
/// Maximum size of a file, in bytes; the agent's own documents are far smaller.
const MAX_FILE_BYTES: u64 = 256 * 1024;

pub(crate) struct DirStore {
    dir: PathBuf,
}

impl DirStore {
    pub(crate) fn new(dir: PathBuf) -> Self {
        DirStore { dir }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) async fn load(&self) -> Result<Documents, IdentityStoreError> {
        let dir = self.dir.clone();
        blocking(move || {
            Ok(Documents {
                identity: read(&dir.join(IDENTITY_FILE))?,
                pending: read(&dir.join(PENDING_KEY_FILE))?,
                hubs: read(&dir.join(HUBS_FILE))?,
            })
        })
        .await
    }

    pub(super) async fn save_hubs(&self, hubs: SecretString) -> Result<(), IdentityStoreError> {
        let dir = self.dir.clone();
        blocking(move || replace(&dir, HUBS_FILE, hubs.expose_secret())).await
    }

    pub(super) async fn save_pending(&self, key: SecretString) -> Result<(), IdentityStoreError> {
        let dir = self.dir.clone();
        blocking(move || replace(&dir, PENDING_KEY_FILE, key.expose_secret())).await
    }

    pub(super) async fn save(&self, identity: SecretString) -> Result<(), IdentityStoreError> {
        let dir = self.dir.clone();
        blocking(move || {
            replace(&dir, IDENTITY_FILE, identity.expose_secret())?;
            let pending = dir.join(PENDING_KEY_FILE);
            match fs::remove_file(&pending) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(failed(&pending, &error))
                }
                _ => Ok(()),
            }
        })
        .await
    }
}

fn read(path: &Path) -> Result<Option<SecretString>, IdentityStoreError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path, &error)),
    };
    let mode = file
        .metadata()
        .map_err(|error| failed(path, &error))?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        let cause = format!(
            "others may touch it (mode {:04o}); run `chmod 600` on it",
            mode & 0o777
        );
        return Err(IdentityStoreError::File {
            path: path.display().to_string(),
            cause,
        });
    }
    let mut text = String::new();
    file.take(MAX_FILE_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| failed(path, &error))?;
    Ok(Some(text.into()))
}

fn replace(dir: &Path, name: &str, text: &str) -> Result<(), IdentityStoreError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| failed(dir, &error))?;
    let target = dir.join(name);
    let replaced = atomic_file::replace(&target, text.as_bytes(), 0o600);
    replaced.map_err(|error| failed(&target, &error))
}

fn failed(path: &Path, cause: &io::Error) -> IdentityStoreError {
    IdentityStoreError::File {
        path: path.display().to_string(),
        cause: cause.to_string(),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, IdentityStoreError> + Send + 'static,
) -> Result<T, IdentityStoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(IdentityStoreError::File {
            path: "state".to_owned(),
            cause: error.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn stored_documents_read_back_and_are_private() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("a/state");
        let store = DirStore::new(dir.clone());
        let empty = store.load().await.unwrap();
        let is_empty = empty.identity.is_none() && empty.pending.is_none() && empty.hubs.is_none();
        assert!(is_empty, "an empty store is no error");
        store.save_pending("key".to_owned().into()).await.unwrap();
        let Documents {
            identity, pending, ..
        } = store.load().await.unwrap();
        assert!(identity.is_none());
        assert_eq!(pending.unwrap().expose_secret(), "key");
        store.save("one".to_owned().into()).await.unwrap();
        store.save("two".to_owned().into()).await.unwrap();
        let listed = store.save_hubs("list".to_owned().into());
        listed.await.unwrap();
        let Documents {
            identity, pending, ..
        } = store.load().await.unwrap();
        assert_eq!(identity.unwrap().expose_secret(), "two");
        assert!(
            pending.is_none(),
            "the pending key is forgotten with the identity"
        );
        assert_eq!((mode(&dir), mode(&dir.join(IDENTITY_FILE))), (0o700, 0o600));
        assert_eq!(
            fs::read_dir(&dir).unwrap().count(),
            2,
            "no temporary file is left"
        );
    }

    #[tokio::test]
    async fn leftover_of_a_crash_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let store = DirStore::new(dir.path().to_owned());
        store.save("old".to_owned().into()).await.unwrap();
        let temporary = dir.path().join("identity.json.new");
        fs::write(&temporary, "hal").unwrap();
        fs::set_permissions(&temporary, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(
            store
                .load()
                .await
                .unwrap()
                .identity
                .unwrap()
                .expose_secret(),
            "old"
        );
        store.save("new".to_owned().into()).await.unwrap();
        assert_eq!(
            store
                .load()
                .await
                .unwrap()
                .identity
                .unwrap()
                .expose_secret(),
            "new"
        );
        assert_eq!(mode(&dir.path().join(IDENTITY_FILE)), 0o600);
    }

    #[tokio::test]
    async fn document_accessible_to_others_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let store = DirStore::new(dir.path().to_owned());
        store.save("text".to_owned().into()).await.unwrap();
        for mode in [0o640, 0o604, 0o620, 0o601] {
            fs::set_permissions(
                dir.path().join(IDENTITY_FILE),
                fs::Permissions::from_mode(mode),
            )
            .unwrap();
            let error = store.load().await.unwrap_err().to_string();
            assert!(
                error.contains("chmod 600") && !error.contains("text"),
                "{mode:o}: {error}"
            );
        }
    }

    #[tokio::test]
    async fn unwritable_directory_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error = DirStore::new(file.clone())
            .save("x".to_owned().into())
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains(file.to_str().unwrap()),
            "{error}"
        );
    }
}
