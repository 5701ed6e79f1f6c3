//! A Git server under test, with access behind the back of the hub.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::resources::DeployKey;
use fairlead_git_servers::{ProvidedServer, ServerSettings};
use fairlead_repositories::{
    DesiredFile, DesiredRepo, GitServer, GitServerError, KnownRepo, RepoOwner, RepoSecrets,
    ReportedRepo,
};
use tempfile::TempDir;

use crate::description::{Differences, assert_none};

/// Token of the hub on each server.
pub(crate) const SSH_HOST: &str = "ssh.git.example";

/// State of a repository on its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) description: String,
    pub(crate) archived: bool,
    /// Title, key without comment, and write access; in the order of titles.
    pub(crate) keys: Vec<(String, String, bool)>,
    /// Files of the default branch.
    pub(crate) files: BTreeMap<String, String>,
    /// Commits on the default branch.
    pub(crate) commits: usize,
}

#[async_trait]
pub(crate) trait Host: Send + Sync {
    /// Address of the server.
    fn endpoint(&self) -> String;
    fn token(&self) -> String;
    /// Number of keys that needs several pages.
    fn many_keys(&self) -> usize;
    /// Differences of its API to the description; none of a real server.
    fn differences(&self) -> Differences {
        Differences::default()
    }
    async fn observe(&self, path: &str) -> Option<Observed>;
    /// Makes a repository with one commit of these files, and its group.
    async fn add_repo(&self, path: &str, branch: &str, files: &[(&str, &str)]);
    async fn add_key(&self, path: &str, title: &str, key: &str);
    async fn describe(&self, path: &str, description: &str);
    async fn archive(&self, path: &str);
    async fn rename(&self, path: &str, name: &str);
    /// True if values of masked variables can be read.
    fn shows_secrets(&self) -> bool;
    async fn set_variable(&self, path: &str, name: &str, value: &str);
    /// Name, value if it can be read, and whether it is masked; in the order of names.
    async fn variables(&self, path: &str) -> Vec<(String, Option<String>, bool)>;
}

/// A server behind the seam; its token file goes with it. Its end asserts that all exchanges were
/// as the API is described.
pub(crate) struct Opened {
    pub(crate) server: ProvidedServer,
    pub(crate) differences: Differences,
    _home: TempDir,
}

impl Drop for Opened {
    fn drop(&mut self) {
        assert_none(&self.differences);
    }
}

impl Opened {
    pub(crate) async fn ensure(
        &self,
        desired: &DesiredRepo,
        known: &KnownRepo,
    ) -> Result<ReportedRepo, GitServerError> {
        let none = RepoSecrets::default();
        self.server.ensure(desired, known, &none).await
    }
}

/// Writes a file that its owner alone may read.
pub(crate) fn restrict(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

pub(crate) fn open(host: &dyn Host) -> Opened {
    open_with(host, |_| {})
}

pub(crate) fn open_with(host: &dyn Host, change: impl FnOnce(&mut ServerSettings)) -> Opened {
    let home = tempfile::tempdir().unwrap();
    let token_file = home.path().join("token");
    restrict(&token_file, &host.token());
    let mut settings = ServerSettings {
        name: "git.example".to_owned(),
        endpoint: host.endpoint(),
        provider: None,
        token_file: Some(token_file),
        credentials_dir: None,
        kubernetes_secrets: false,
        ssh_host: Some(SSH_HOST.to_owned()),
        ssh_port: Some(2222),
        host_keys: Some("ssh.git.example ssh-ed25519 AAAA".to_owned()),
        create_groups: true,
        ca_file: None,
        tenants: BTreeMap::new(),
    };
    change(&mut settings);
    Opened {
        server: settings.open().unwrap(),
        differences: host.differences(),
        _home: home,
    }
}

/// URL of a repository as a record has it.
pub(crate) fn url(path: &str) -> String {
    format!("ssh://git@{SSH_HOST}:2222/{path}.git")
}

/// The repository of cluster `c-edge` at this path.
pub(crate) fn desired(path: &str) -> DesiredRepo {
    DesiredRepo {
        owner: RepoOwner::Cluster("c-edge".parse().unwrap()),
        title: "Edge".to_owned(),
        url: Some(url(path)),
        path: None,
        name: None,
        api_secret: None,
        deploy_keys: BTreeMap::new(),
        creation_policy: None,
        files: BTreeMap::new(),
        ci_variables: BTreeMap::new(),
        tenant: "t-acme".parse().unwrap(),
        access_token: None,
        compiled_clusters: Default::default(),
    }
}

/// Knowledge of a hub that has provided this repository before.
pub(crate) fn known(path: &str) -> KnownRepo {
    KnownRepo {
        url: Some(url(path)),
        ..KnownRepo::default()
    }
}

pub(crate) fn content(content: &str, earlier: &[&str]) -> DesiredFile {
    DesiredFile::Content {
        content: content.to_owned(),
        earlier: earlier.iter().map(|it| (*it).to_owned()).collect(),
    }
}

pub(crate) fn absent(earlier: &[&str]) -> DesiredFile {
    DesiredFile::Absent {
        earlier: earlier.iter().map(|it| (*it).to_owned()).collect(),
    }
}

pub(crate) fn declared(content: &str) -> DesiredFile {
    DesiredFile::Declared(content.to_owned())
}

/// A valid public key of this number (RFC 8709, section 4).
pub(crate) fn public_key(number: u32) -> String {
    let mut bytes = Vec::new();
    bytes.extend(11_u32.to_be_bytes());
    bytes.extend(b"ssh-ed25519");
    bytes.extend(32_u32.to_be_bytes());
    bytes.extend(number.to_be_bytes());
    bytes.extend([7; 28]);
    format!("ssh-ed25519 {}", STANDARD.encode(bytes))
}

pub(crate) fn deploy_key(number: u32, write_access: bool) -> DeployKey {
    DeployKey {
        key: public_key(number),
        write_access,
        generate: false,
    }
}
