//! Git repositories of tenants and clusters: the desired repository ([`DesiredRepo`]), the Git
//! server that creates it (a plugged-in [`GitServer`]), and its status ([`state`]). Without a
//! server, repositories are plain data.

mod keeper;
mod plans;
mod state;
mod wanted;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use fairlead_routes::ApiModule;
use fairlead_runtime::Process;
use fairlead_seam::Module;
use fairlead_store::{Clock, Store};

pub use wanted::{DesiredRepo, RepoOwner};

/// A Git server, or a company's own process for repositories. Its reasons are shown to everyone
/// with access to the repository: they must contain no secrets.
#[async_trait]
pub trait GitServer: Send + Sync {
    /// Name known to users, like `git.example`.
    fn name(&self) -> &str;

    /// True if this server is responsible for the repository.
    fn serves(&self, wanted: &DesiredRepo) -> bool;

    /// Creates the repository, or reconciles the existing one with the desired one.
    ///
    /// It is called again for the same repository: periodically, after a restart, and possibly
    /// twice at once when another hub takes over. A repository created by an earlier call counts as
    /// created now, whatever [`DesiredRepo::creation_policy`] says. The call is dropped after 30 s;
    /// a panic counts as [`GitServerError::Unavailable`].
    ///
    /// # Errors
    /// [`GitServerError`]
    async fn ensure(&self, wanted: &DesiredRepo) -> Result<ReportedRepo, GitServerError>;
}

/// A repository as reported by its server. Its fields fill the ones left empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedRepo {
    /// Clone URL.
    pub url: String,
    /// In the format of `known_hosts`, several lines.
    pub host_keys: Option<String>,
}

/// A failed request to a Git server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitServerError {
    /// The desired state was rejected; a retry alone does not help.
    #[error("{0}")]
    Rejected(String),
    /// The result is unknown; a retry may help.
    #[error("{0}")]
    Unavailable(String),
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

    fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    fn of(&self, wanted: &DesiredRepo) -> Option<&Arc<dyn GitServer>> {
        self.0.iter().find(|server| server.serves(wanted))
    }
}

impl fmt::Debug for GitServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|server| server.name());
        f.debug_list().entries(names).finish()
    }
}

/// Git servers, and the store with the repositories that they provide.
struct Repositories {
    store: Store,
    clock: Clock,
    git_servers: GitServers,
}

pub(crate) struct RepositoriesModule(Arc<Repositories>);

impl RepositoriesModule {
    pub(crate) fn new(store: Store, clock: Clock, git_servers: GitServers) -> Self {
        RepositoriesModule(Arc::new(Repositories {
            store,
            clock,
            git_servers,
        }))
    }
}

impl ApiModule for RepositoriesModule {}

#[async_trait]
impl Module for RepositoriesModule {
    fn name(&self) -> &'static str {
        "repositories"
    }

    async fn run(&self, process: Process) {
        tokio::select! {
            () = process.draining() => {}
            () = keeper::run(&self.0), if !self.0.git_servers.are_none() => {}
        }
    }
}
