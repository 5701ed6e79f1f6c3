//! Git repositories of tenants and clusters: what each is to be ([`WantedRepo`]), who makes it (a [`GitServer`], which is
//! plugged in), and how it stands with it ([`state`]). Whoever has none of them plugged in keeps repositories as data.

mod keeper;
mod plans;
mod state;
mod wanted;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use fairlead_gateway::Module;
use fairlead_runtime::Process;

use crate::hub::Hub;
pub(crate) use state::{ShownRepoState, shown_of_cluster, shown_of_tenant};
pub use wanted::{RepoOwner, WantedRepo};

/// A server that has Git repositories, or a company's own way to them. Reasons that it gives are shown to all who see the
/// repository: there is nothing secret in them.
#[async_trait]
pub trait GitServer: Send + Sync {
    /// What people know it by, like `git.example`.
    fn name(&self) -> &str;

    /// Whether this repository is its business.
    fn serves(&self, wanted: &WantedRepo) -> bool;

    /// Makes the repository, or brings the one that it has to what is wanted. It is asked again for the same one: now and
    /// then, after a restart, and maybe twice at once when another hub takes over. One that such a call has made before is
    /// as good as one made now, whatever [`WantedRepo::creation_policy`] says. Dropped if it takes more than 30 s;
    /// one that panics is asked again, as one that is away.
    ///
    /// # Errors
    /// [`GitTrouble`]
    async fn ensure(&self, wanted: &WantedRepo) -> Result<MadeRepo, GitTrouble>;
}

/// A repository as its server has it. What it says fills what was left empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeRepo {
    pub url: String,
    /// In the form of `known_hosts`, several lines.
    pub host_keys: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitTrouble {
    /// It is not as wanted, and will not be by itself.
    #[error("{0}")]
    Refused(String),
    /// Nobody knows whether it is.
    #[error("{0}")]
    Away(String),
}

/// Those that are plugged in; the first that serves a repository looks after it.
#[derive(Clone, Default)]
pub struct GitServers(Vec<Arc<dyn GitServer>>);

impl GitServers {
    #[must_use]
    pub fn new(servers: Vec<Arc<dyn GitServer>>) -> Self {
        GitServers(servers)
    }

    fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    fn of(&self, wanted: &WantedRepo) -> Option<&Arc<dyn GitServer>> {
        self.0.iter().find(|server| server.serves(wanted))
    }
}

impl fmt::Debug for GitServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|server| server.name());
        f.debug_list().entries(names).finish()
    }
}

pub(crate) struct RepositoriesModule(pub(crate) Arc<Hub>);

#[async_trait]
impl Module for RepositoriesModule {
    fn name(&self) -> &'static str {
        "repositories"
    }

    async fn run(&self, process: Process) {
        tokio::select! {
            () = process.draining() => {}
            () = keeper::keep(&self.0), if !self.0.git_servers.are_none() => {}
        }
    }
}
