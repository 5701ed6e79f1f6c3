//! Git repositories of tenants and clusters: the desired repository ([`desired`]), the Git server
//! that provides it (a plugged-in [`GitServer`](fairlead_repositories::GitServer)), and its status
//! ([`state`]). Without a server, repositories are plain data.

mod credentials;
mod desired;
mod host_keys;
mod merge_requests;
mod opened;
mod pipeline;
mod plans;
mod reconciler;
mod retired;
mod state;
mod tenant_files;

use std::sync::Arc;

use async_trait::async_trait;
use fairlead_api::{
    HubUrl,
    resources::{RetiredRepoDocument, RetiredRepositories, Role},
};
use fairlead_registry::RegistryError;
use fairlead_repositories::GitServers;
use fairlead_routes::{ApiModule, ApiRoutes, Right, RouteSpec, Tag};
use fairlead_runtime::Process;
use fairlead_seam::Module;
use fairlead_store::{Clock, Draft, Store, StoreError, View};
use tracing::info;

use crate::{
    reconciling::retired::{self as retired_parts, RetiredParts},
    secrets::StoreSecrets,
};

pub(crate) use state::ServerStates;

const RETIRED: Right = Right::new("handling retired repositories", &[Role::Admin]).on_all_tenants();

/// Git servers, and the store with the repositories that they provide.
struct Repositories {
    store: Store,
    clock: Clock,
    git_servers: GitServers,
    secrets: Arc<StoreSecrets>,
    /// Address of the hub, for compile pipelines.
    public_url: String,
}

pub(crate) struct RepositoriesModule(Arc<Repositories>);

impl RepositoriesModule {
    pub(crate) fn new(
        store: Store,
        clock: Clock,
        git_servers: GitServers,
        secrets: Arc<StoreSecrets>,
        public_url: &HubUrl,
    ) -> Self {
        RepositoriesModule(Arc::new(Repositories {
            store,
            clock,
            git_servers,
            secrets,
            public_url: public_url.to_string(),
        }))
    }
}

impl ApiModule for RepositoriesModule {
    fn api_routes(&self) -> ApiRoutes {
        const TAG: Tag = Tag::SYSTEM;
        ApiRoutes::new()
            .route(
                RouteSpec::get(
                    TAG,
                    "/v1/retired-repositories",
                    "listRetiredRepositories",
                    "List repositories of deleted tenants and clusters that are not archived or deleted yet",
                )
                .needs(&[RETIRED])
                .gives::<RetiredRepositories>(200),
                retired_parts::list::<Repositories>,
            )
            .route(
                RouteSpec::delete(
                    TAG,
                    "/v1/retired-repositories/{id}",
                    "keepRetiredRepository",
                    "Keep a repository of a deleted tenant or cluster unchanged",
                )
                .needs(&[RETIRED])
                .fails(404, "no such entry")
                .gives_nothing(204),
                retired_parts::keep::<Repositories>,
            )
            .with_state(Arc::clone(&self.0))
            .merge(credentials::routes(&self.0))
            .merge(host_keys::routes(&self.0))
            .merge(merge_requests::routes(&self.0))
    }
}

impl RetiredParts for Repositories {
    const RIGHT: Right = RETIRED;
    type Shown = RetiredRepositories;

    fn store(&self) -> &Store {
        &self.store
    }

    fn shown(view: &View) -> RetiredRepositories {
        let items = view.retired_repositories().map(|it| {
            let it = it.value.clone();
            RetiredRepoDocument {
                id: it.id,
                owner: it.owner,
                url: it.url,
                policy: it.policy,
                deleted: it.deleted,
                reason: it.reason,
                last_try: it.tried,
            }
        });
        RetiredRepositories {
            items: items.collect(),
        }
    }

    fn remove(draft: &mut Draft, id: &str) -> Result<(), StoreError> {
        draft.delete_retired_repository(id)
    }

    fn missing(id: String) -> RegistryError {
        RegistryError::NoSuchRetiredRepository(id)
    }

    fn log_kept(id: &str, caller: &str) {
        info!(id, caller, "retired repository kept");
    }
}

#[async_trait]
impl Module for RepositoriesModule {
    fn name(&self) -> &'static str {
        "repositories"
    }

    async fn run(&self, process: Process) {
        tokio::select! {
            () = process.draining() => {}
            () = reconciler::run(&self.0), if !self.0.git_servers.are_none() => {}
            () = retired::run(&self.0), if !self.0.git_servers.are_none() => {}
        }
    }
}
