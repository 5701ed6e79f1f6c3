//! Way to one Git server: credentials by reference, host keys, and the environment of git.

use std::{
    ffi::OsString,
    fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use fairlead_api::{Code, TenantId, delivery::GitSource};
use tempfile::TempDir;

use super::failure::SourceFailure;

/// User name of a token without one. Servers of tokens ignore it.
const DEFAULT_USER: &str = "git";
/// Limit of a file with credentials, in bytes.
const MAX_CREDENTIALS_BYTES: u64 = 64 * 1024;
/// Prints user name or password from a file, by the question of git.
const ASKPASS: &str = "#!/bin/sh\ncase \"$1\" in Username*) exec cat \"$FAIRLEAD_ASKPASS/user\";; *) exec cat \"$FAIRLEAD_ASKPASS/password\";; esac\n";

/// Folder with credentials: a folder for each tenant, and in it one file for each name.
///
/// A tenant reads its own folder only: its sources choose the host that receives the credentials.
#[derive(Debug, Clone)]
pub(super) struct CredentialsFolder(Option<PathBuf>);

impl CredentialsFolder {
    pub(super) fn new(folder: Option<PathBuf>) -> Self {
        CredentialsFolder(folder)
    }

    /// Content of the file of this name.
    pub(super) fn read(&self, tenant: &TenantId, name: &str) -> Result<Vec<u8>, SourceFailure> {
        let denied = |cause: String| SourceFailure::new(Code::GitAccessDenied, cause);
        let Some(folder) = &self.0 else {
            let cause = "the hub was started without --delivery-credentials";
            return Err(denied(cause.to_owned()));
        };
        let path = folder.join(tenant.as_str()).join(name);
        let read = || -> io::Result<Vec<u8>> {
            let size = fs::metadata(&path)?.len();
            if size > MAX_CREDENTIALS_BYTES {
                return Err(io::Error::other("the file is too large"));
            }
            fs::read(&path)
        };
        read().map_err(|error| denied(format!("credentials {name:?} of {tenant}: {error}")))
    }
}

/// True for a name of a file in the folder.
pub(super) fn is_credentials_name(name: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.chars().all(is_plain)
}

/// Environment of git for one server. The files go with it.
pub(super) struct GitAccess {
    pub(super) environment: Vec<(&'static str, OsString)>,
    files: TempDir,
}

impl GitAccess {
    /// Prepares the files of a source.
    pub(super) fn of(
        source: &GitSource,
        tenant: &TenantId,
        credentials: &CredentialsFolder,
    ) -> Result<Self, SourceFailure> {
        let name = source.credentials.as_ref().map(|it| it.name.as_str());
        let secret = name.map(|it| credentials.read(tenant, it)).transpose()?;
        let made = GitAccess::new(source, secret.as_deref());
        made.map_err(|error| SourceFailure::git(format!("files for git: {error}")))
    }

    fn new(source: &GitSource, secret: Option<&[u8]>) -> io::Result<Self> {
        let files = tempfile::Builder::new().prefix("fairlead-git-").tempdir()?;
        let place = |name: &str| files.path().join(name);
        let known_hosts = place("known_hosts");
        let host_keys = source.host_keys.as_deref().unwrap_or_default();
        write(&known_hosts, format!("{host_keys}\n").as_bytes(), 0o600)?;
        let mut environment = Vec::new();
        let mut key = None;
        match secret {
            Some(secret) if is_private_key(secret) => {
                let path = place("key");
                let mut lines = secret.trim_ascii().to_vec();
                lines.push(b'\n');
                write(&path, &lines, 0o600)?;
                key = Some(path);
            }
            Some(secret) => {
                let text = String::from_utf8_lossy(secret);
                let (user, password) = user_and_password(text.trim());
                write(&place("user"), user.as_bytes(), 0o600)?;
                write(&place("password"), password.as_bytes(), 0o600)?;
                write(&place("askpass"), ASKPASS.as_bytes(), 0o700)?;
                environment.push(("GIT_ASKPASS", place("askpass").into_os_string()));
                environment.push(("FAIRLEAD_ASKPASS", files.path().as_os_str().to_owned()));
            }
            None => {}
        }
        environment.push(("GIT_SSH_COMMAND", ssh_command(&known_hosts, key.as_deref())));
        Ok(GitAccess { environment, files })
    }

    /// Writes a further file for git.
    pub(super) fn file(&self, name: &str, content: &str) -> Result<PathBuf, SourceFailure> {
        let path = self.files.path().join(name);
        let written = write(&path, format!("{content}\n").as_bytes(), 0o600);
        written.map_err(|error| SourceFailure::git(format!("files for git: {error}")))?;
        Ok(path)
    }
}

/// `USER:PASSWORD`, or a token alone.
fn user_and_password(text: &str) -> (&str, &str) {
    text.split_once(':').unwrap_or((DEFAULT_USER, text))
}

fn is_private_key(secret: &[u8]) -> bool {
    secret.trim_ascii_start().starts_with(b"-----BEGIN ")
}

/// Command of ssh without any configuration of the machine. Paths of temporary files have no characters of a shell.
fn ssh_command(known_hosts: &Path, key: Option<&Path>) -> OsString {
    let mut command = OsString::from(
        "ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=yes -o GlobalKnownHostsFile=/dev/null \
         -o UpdateHostKeys=no -o IdentityAgent=none -o IdentitiesOnly=yes -o ConnectTimeout=20 \
         -o ServerAliveInterval=10 -o ClearAllForwardings=yes -o UserKnownHostsFile=",
    );
    command.push(known_hosts);
    command.push(" -i ");
    command.push(key.unwrap_or_else(|| Path::new("/dev/null")));
    command
}

fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> GitSource {
        GitSource {
            url: "ssh://git@git.test/a".to_owned(),
            reference: "main".to_owned(),
            paths: vec![".".to_owned()],
            credentials: None,
            host_keys: Some("git.test ssh-ed25519 AAAA".to_owned()),
            verify: None,
        }
    }

    fn value<'a>(access: &'a GitAccess, name: &str) -> Option<&'a str> {
        let mut all = access.environment.iter();
        let found = all.find(|(known, _)| *known == name);
        found.and_then(|(_, value)| value.to_str())
    }

    #[test]
    fn secrets_are_in_files_of_their_own() {
        let access = GitAccess::new(&source(), Some(b"bot:tok:en\n")).unwrap();
        let folder = value(&access, "FAIRLEAD_ASKPASS").unwrap().to_owned();
        let read = |name: &str| fs::read_to_string(Path::new(&folder).join(name)).unwrap();
        assert_eq!(
            (read("user"), read("password")),
            ("bot".into(), "tok:en".into())
        );
        assert_eq!(read("known_hosts"), "git.test ssh-ed25519 AAAA\n");
        let all = format!("{:?}", access.environment);
        assert!(!all.contains("tok:en"), "{all}");
        drop(access);
        assert!(!Path::new(&folder).exists());
    }

    #[test]
    fn a_private_key_is_for_ssh() {
        let key = b"\n-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----";
        let access = GitAccess::new(&source(), Some(key)).unwrap();
        let command = value(&access, "GIT_SSH_COMMAND").unwrap();
        let path = command.rsplit_once(" -i ").unwrap().1;
        assert!(fs::read_to_string(path).unwrap().ends_with("KEY-----\n"));
        assert_eq!(value(&access, "GIT_ASKPASS"), None);
    }

    #[test]
    fn a_tenant_reads_its_own_folder_only() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("t-a")).unwrap();
        fs::write(home.path().join("t-a/bot"), "secret").unwrap();
        let folder = CredentialsFolder::new(Some(home.path().to_owned()));
        let (own, other) = ("t-a".parse().unwrap(), "t-b".parse().unwrap());
        assert_eq!(folder.read(&own, "bot").unwrap(), b"secret");
        let failure = folder.read(&other, "bot").unwrap_err();
        assert_eq!(failure.code, Code::GitAccessDenied);
        for bad in ["", "..", ".x", "a/b", "../t-a/bot", "a\0b"] {
            assert!(!is_credentials_name(bad), "{bad:?}");
        }
        assert!(is_credentials_name("s-shop.webhook"));
    }
}
