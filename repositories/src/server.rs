//! Seam of the Git servers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use fairlead_api::{Code, resources::GeneratedKey};

use crate::{
    DesiredRepo, KnownRepo, MergeRequestFilter, OpenMergeRequest, RepoSecrets, ReportedAccessToken,
    RetiredRepo,
};

/// A Git server, or a company's own process for repositories. Its reasons are shown to everyone
/// with access to the repository: they must contain no secrets.
#[async_trait]
pub trait GitServer: Send + Sync {
    /// Name known to users, like `git.example`.
    fn name(&self) -> &str;

    /// Clone URL of a desired repository, in one form for each repository; `None` if this server is
    /// not responsible for it.
    fn url_of(&self, desired: &DesiredRepo) -> Option<String>;

    /// The same form of another clone URL; `None` if this server has no such repository.
    fn canonical_url(&self, url: &str) -> Option<String>;

    /// Host keys of the settings, in the format of `known_hosts`.
    fn given_host_keys(&self) -> Option<&str> {
        None
    }

    /// Reads the host keys of the SSH server, in the format of `known_hosts`. They are unconfirmed.
    ///
    /// # Errors
    /// [`GitServerError::Unavailable`] if it cannot be reached.
    async fn scan_host_keys(&self) -> Result<String, GitServerError> {
        let cause = format!("{} has no host keys to read", self.name());
        Err(GitServerError::Unavailable(cause))
    }

    /// Creates the repository, or reconciles the existing one with the desired one.
    ///
    /// It is called again for the same repository: periodically, after a restart, and possibly
    /// twice at once when another hub takes over. A repository created by an earlier call counts as
    /// created now, whatever [`DesiredRepo::creation_policy`] says; `known` may miss the latest
    /// call. The call is dropped after 60 s; a panic counts as [`GitServerError::Unavailable`].
    ///
    /// # Errors
    /// [`GitServerError`]
    async fn ensure(
        &self,
        desired: &DesiredRepo,
        known: &KnownRepo,
        secrets: &RepoSecrets,
    ) -> Result<ReportedRepo, GitServerError>;

    /// Archives or deletes the repository of a deleted owner. A missing repository is a success.
    ///
    /// # Errors
    /// [`GitServerError`]
    async fn retire(
        &self,
        retired: &RetiredRepo,
        secrets: &RepoSecrets,
    ) -> Result<(), GitServerError>;

    /// Lists open merge requests that match, with their CI and conflicts.
    ///
    /// # Errors
    /// [`GitServerError`]
    async fn merge_requests(
        &self,
        _desired: &DesiredRepo,
        _secrets: &RepoSecrets,
        _filter: &MergeRequestFilter,
    ) -> Result<Vec<OpenMergeRequest>, GitServerError> {
        let cause = format!("{} has no merge requests", self.name());
        Err(GitServerError::Rejected(cause))
    }

    /// Merges an open merge request that is ready: its CI has ended without a failure, and it has no conflicts. With
    /// `head`, only while this is its last commit.
    ///
    /// # Errors
    /// [`GitServerError`]; [`GitServerError::Rejected`] if it is not ready.
    async fn merge(
        &self,
        _desired: &DesiredRepo,
        _secrets: &RepoSecrets,
        _number: u64,
        _head: Option<&str>,
    ) -> Result<(), GitServerError> {
        let cause = format!("{} has no merge requests", self.name());
        Err(GitServerError::Rejected(cause))
    }
}

/// A repository as reported by its server. Its fields fill the ones left empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportedRepo {
    /// Clone URL.
    pub url: String,
    /// In the format of `known_hosts`, several lines.
    pub host_keys: Option<String>,
    /// Names of all deploy keys that the hub has added.
    pub deploy_keys: BTreeSet<String>,
    /// Public halves of the deploy keys that the hub has made, by name.
    pub generated_keys: BTreeMap<String, GeneratedKey>,
    /// Ids of the blobs of declared files, by path.
    pub files: BTreeMap<String, String>,
    /// Names of all CI variables that the hub has added.
    pub ci_variables: BTreeSet<String>,
    /// Access token, if one is declared.
    pub access_token: Option<ReportedAccessToken>,
    /// Differences that this call removed, like `description`.
    pub corrected: Vec<String>,
    /// Reasons for parts that are not as desired, although all others are.
    pub unmet: Vec<String>,
}

/// A failed request to a Git server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitServerError {
    /// The desired state was rejected; a retry alone does not help.
    #[error("{0}")]
    Rejected(String),
    /// As [`GitServerError::Rejected`], with a code.
    #[error("{1}")]
    Denied(Code, String),
    /// The result is unknown; a retry may help.
    #[error("{0}")]
    Unavailable(String),
    /// The server limits the rate of requests.
    #[error("{reason}")]
    Throttled {
        /// Reason with the name of the server.
        reason: String,
        /// Time until the next request, from the server.
        wait: Duration,
    },
}

/// Plugged-in Git servers; the first one that serves a repository is responsible for it.
#[derive(Clone, Default)]
pub struct GitServers(Vec<Arc<dyn GitServer>>);

impl GitServers {
    /// Uses `servers` in this order.
    #[must_use]
    pub fn new(servers: Vec<Arc<dyn GitServer>>) -> Self {
        GitServers(servers)
    }

    /// True without any server.
    #[must_use]
    pub fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Server responsible for a desired repository.
    #[must_use]
    pub fn of(&self, desired: &DesiredRepo) -> Option<&Arc<dyn GitServer>> {
        self.0
            .iter()
            .find(|server| server.url_of(desired).is_some())
    }

    /// Server of a repository by its clone URL.
    #[must_use]
    pub fn of_url(&self, url: &str) -> Option<&Arc<dyn GitServer>> {
        self.0
            .iter()
            .find(|server| server.canonical_url(url).is_some())
    }

    /// All servers, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn GitServer>> {
        self.0.iter()
    }
}

impl fmt::Debug for GitServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|server| server.name());
        f.debug_list().entries(names).finish()
    }
}
