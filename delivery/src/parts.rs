//! Parts that all routes and keepers of delivery share.

use std::sync::Arc;

use fairlead_delivery_store::{ContentStore, DeploymentStore, LogStore, RolloutStore, RunStore};
use fairlead_store::{Clock, Store};

use crate::{
    announcements::Announcements,
    artifacts::Artifacts,
    charts::ChartFetcher,
    fleet::{FleetHandle, SupervisorParts},
    generations::Generations,
    proxy::ProgramProxy,
    tools::ToolManifests,
};

/// Documents, rows and clock of delivery.
#[derive(Clone)]
pub struct DeliveryParts {
    /// Documents.
    pub store: Store,
    /// Clock.
    pub clock: Clock,
    /// Artifacts and options, by digest.
    pub contents: ContentStore,
    /// Contents of bundles.
    pub(crate) artifacts: Artifacts,
    /// Charts of repositories.
    pub(crate) charts: ChartFetcher,
    /// Manifests of GitOps tools.
    pub(crate) tools: ToolManifests,
    /// Generations of bundles.
    pub(crate) generations: Generations,
    /// States of bundles in clusters.
    pub deployments: DeploymentStore,
    /// Releases of generations.
    pub rollouts: RolloutStore,
    /// Executions of deployments.
    pub runs: RunStore,
    /// Logs of executions.
    pub logs: LogStore,
    /// ETags of desired deliveries, for the gateway's probes.
    pub announcements: Arc<Announcements>,
    /// All deployments, in memory.
    pub fleet: FleetHandle,
}

impl DeliveryParts {
    /// Documents and rows of a store.
    #[must_use]
    pub fn of(store: &Store, clock: &Clock) -> Self {
        let contents = ContentStore::of(store);
        let announcements: Arc<Announcements> = Arc::default();
        let generations = Generations::new(contents.clone());
        let fleet = FleetHandle::new(SupervisorParts {
            store: store.clone(),
            clock: clock.clone(),
            generations: generations.clone(),
            deployments: DeploymentStore::of(store),
            rollouts: RolloutStore::of(store),
            announcements: Arc::clone(&announcements),
        });
        DeliveryParts {
            artifacts: Artifacts::new(contents.clone()),
            charts: ChartFetcher::new(None, ProgramProxy::default()),
            tools: ToolManifests::default(),
            generations,
            store: store.clone(),
            clock: clock.clone(),
            contents,
            deployments: DeploymentStore::of(store),
            rollouts: RolloutStore::of(store),
            runs: RunStore::of(store),
            logs: LogStore::of(store),
            announcements,
            fleet,
        }
    }

    /// The same with these manifests of GitOps tools.
    #[must_use]
    pub fn with_tools(mut self, tools: &ToolManifests) -> Self {
        self.tools = tools.clone();
        self
    }
}
