//! Tokens for the APIs of Git servers, read anew for each use, so that a replaced file is used at
//! once.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use fairlead_api::{
    TenantId,
    resources::{Credentials, ValueSource},
};
use secrecy::{ExposeSecret, SecretString};

/// Limit of a file with a token, in bytes.
const MAX_TOKEN_BYTES: u64 = 64 * 1024;
/// Bit of a file mode: users other than owner and group may read.
const OTHERS_READ: u32 = 0o004;
/// Namespace of a reference without one.
const DEFAULT_NAMESPACE: &str = "default";

/// Files with the tokens of one server.
#[derive(Debug, Clone, Default)]
pub(crate) struct TokenFiles {
    /// Token without a reference.
    pub(crate) file: Option<PathBuf>,
    /// Tokens by reference: `NAMESPACE/NAME`.
    pub(crate) folder: Option<PathBuf>,
}

/// A token that cannot be had. The texts contain no token.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("token_file is not set for this server, and the repository has no apiSecretRef")]
    None,
    #[error("credential {0:?} needs credentials_dir or kubernetes_secrets for this server")]
    NoFolder(String),
    #[error("credential {0:?} is no name of a file")]
    BadName(String),
    #[error("credential {0:?} is a file, which has no keys: leave key out")]
    NoKeys(String),
    #[error("the Secret {0} is not for this tenant: it needs the label fairlead/tenant={1}")]
    OfOthers(String, TenantId),
    /// There is no such file or Secret. Each other failure leaves open whether there is one.
    #[error("token {name}: {cause}")]
    Missing {
        /// File or Secret, without a path.
        name: String,
        cause: String,
    },
    #[error("token {name}: {cause}")]
    Unreadable {
        /// File or Secret, without a path.
        name: String,
        cause: String,
    },
}

impl TokenFiles {
    /// Token of a reference, or that of the server.
    ///
    /// # Errors
    /// [`TokenError`]
    pub(crate) fn read(&self, reference: Option<&Credentials>) -> Result<SecretString, TokenError> {
        let Some(reference) = reference else {
            let file = self.file.as_ref().ok_or(TokenError::None)?;
            return read_token(file, "of token_file");
        };
        let namespace = reference.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        let name = format!("{namespace}/{}", reference.name);
        if !is_file_name(namespace) || !is_file_name(&reference.name) {
            return Err(TokenError::BadName(name));
        }
        let Some(folder) = &self.folder else {
            return Err(TokenError::NoFolder(name));
        };
        read_token(&folder.join(namespace).join(&reference.name), &name)
    }

    /// Writes a credential of a tenant, readable by the hub's user alone. A reader finds the old one or the new one.
    ///
    /// # Errors
    /// [`TokenError`]
    pub(crate) fn write_of_tenant(
        &self,
        tenant: &TenantId,
        name: &str,
        text: &SecretString,
    ) -> Result<(), TokenError> {
        let shown = format!("{tenant}/{name}");
        if !is_file_name(name) {
            return Err(TokenError::BadName(shown));
        }
        let Some(folder) = &self.folder else {
            return Err(TokenError::NoFolder(shown));
        };
        let written = write_private(&folder.join(tenant.as_str()), name, text);
        written.map_err(|error| TokenError::Unreadable {
            name: shown,
            cause: error.to_string(),
        })
    }

    /// Credential in the folder of a tenant.
    ///
    /// # Errors
    /// [`TokenError`]
    pub(crate) fn read_of_tenant(
        &self,
        tenant: &TenantId,
        reference: &ValueSource,
    ) -> Result<SecretString, TokenError> {
        if reference.key.is_some() {
            return Err(TokenError::NoKeys(reference.name.clone()));
        }
        self.read(Some(&Credentials {
            name: reference.name.clone(),
            namespace: Some(tenant.to_string()),
        }))
    }
}

pub(crate) fn is_file_name(name: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.chars().all(is_plain)
}

/// Paths stay out of the texts: everyone with access to the repository reads them.
fn read_token(path: &Path, name: &str) -> Result<SecretString, TokenError> {
    let unreadable = |cause: String| TokenError::Unreadable {
        name: name.to_owned(),
        cause,
    };
    let token = check_and_read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => TokenError::Missing {
            name: name.to_owned(),
            cause: error.to_string(),
        },
        _ => unreadable(error.to_string()),
    })?;
    match token.trim() {
        "" => Err(unreadable("the file is empty".to_owned())),
        token => Ok(token.to_owned().into()),
    }
}

fn write_private(folder: &Path, name: &str, text: &SecretString) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let new = folder.join(format!(".{name}.new"));
    // One that a hub left when it ended has another text.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(text.expose_secret().as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, folder.join(name))
}

fn check_and_read(path: &Path) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    if metadata.mode() & OTHERS_READ != 0 {
        return Err(io::Error::other(
            "all users may read the file; remove that right (chmod o-r)",
        ));
    }
    if metadata.len() > MAX_TOKEN_BYTES {
        return Err(io::Error::other("the file is too large"));
    }
    fs::read_to_string(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn write(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn reference(namespace: Option<&str>, name: &str) -> Credentials {
        Credentials {
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
        }
    }

    #[test]
    fn references_name_files_of_the_folder_alone() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("folder/syn")).unwrap();
        write(&home.path().join("folder/syn/git"), "of-reference\n", 0o600);
        write(&home.path().join("token"), "of-server", 0o640);
        let files = TokenFiles {
            file: Some(home.path().join("token")),
            folder: Some(home.path().join("folder")),
        };
        let read = |it: Option<Credentials>| {
            let token = files.read(it.as_ref());
            token.map(|it| it.expose_secret().to_owned())
        };
        assert_eq!(read(None).unwrap(), "of-server");
        let known = reference(Some("syn"), "git");
        assert_eq!(read(Some(known)).unwrap(), "of-reference");
        for (namespace, name) in [(Some(".."), "token"), (None, "../token"), (Some("syn"), "")] {
            let refused = read(Some(reference(namespace, name)));
            assert!(
                matches!(refused, Err(TokenError::BadName(_))),
                "{refused:?}"
            );
        }
        let missing = read(Some(reference(None, "git"))).unwrap_err();
        assert!(matches!(missing, TokenError::Missing { .. }), "{missing:?}");
        let missing = missing.to_string();
        assert!(missing.starts_with("token default/git: "), "{missing}");
        assert!(!missing.contains("folder"), "{missing}");
    }

    #[test]
    fn files_for_all_users_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("token");
        let files = TokenFiles {
            file: Some(path.clone()),
            folder: None,
        };
        write(&path, "secret", 0o644);
        let refused = files.read(None).unwrap_err().to_string();
        assert!(refused.contains("chmod o-r") && !refused.contains("secret"));
        write(&path, " \n", 0o600);
        let refused = files.read(None).unwrap_err().to_string();
        assert!(refused.contains("empty"), "{refused}");
        let none = TokenFiles::default().read(None).unwrap_err();
        assert_eq!(none, TokenError::None);
    }
}
