//! The module, and its routes.

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use fairlead_routes::{ApiModule, ApiRoutes};
use fairlead_runtime::Process;
use fairlead_seam::Module;
use tracing::warn;

use crate::{
    agent_routes, artifacts, bundles, catalogs,
    charts::ChartFetcher,
    commands, deployment_status, deployments, garbage, groups,
    metrics::DeliveryMetrics,
    parts::DeliveryParts,
    purge, rollouts,
    runs::{self, Runs},
    sources::{self, SourceSettings, Sources},
    tools,
};

/// Delivery at the hub.
pub struct DeliveryModule {
    parts: DeliveryParts,
    runs: Arc<Runs>,
    sources: Arc<Sources>,
}

impl DeliveryModule {
    /// A module over the documents and rows of a store.
    #[must_use]
    pub fn new(mut parts: DeliveryParts, sources: SourceSettings) -> Self {
        parts.charts = ChartFetcher::new(sources.helm.clone(), sources.proxy.clone());
        DeliveryModule {
            runs: Runs::new(parts.clone()),
            sources: Sources::new(parts.clone(), sources),
            parts,
        }
    }
}

#[async_trait]
impl Module for DeliveryModule {
    fn name(&self) -> &'static str {
        "delivery"
    }

    fn agent_routes(&self) -> Router {
        runs::agent_routes(&self.runs).merge(agent_routes::routes(self.parts.clone()))
    }

    async fn run(&self, process: Process) {
        let fleet = &self.parts.fleet;
        let metrics = DeliveryMetrics::new(fleet);
        if let Err(error) = metrics.and_then(|it| process.measure(it)) {
            warn!(%error, "metrics of deliveries not registered");
        }
        let collect = async {
            tokio::select! {
                () = process.draining() => {}
                () = garbage::run(&self.parts) => {}
                () = catalogs::run(&self.parts) => {}
                () = tools::run(&self.parts) => {}
                () = commands::announce(&self.runs, fleet) => {}
            }
        };
        tokio::join!(
            self.runs.keep(&process),
            self.runs.trim(&process),
            self.sources.keep(&process),
            fleet.run(&process),
            collect
        );
    }
}

impl ApiModule for DeliveryModule {
    fn api_routes(&self) -> ApiRoutes {
        let parts = artifacts::routes()
            .merge(bundles::routes())
            .merge(deployments::routes())
            .merge(purge::routes())
            .merge(deployment_status::routes());
        let runs = runs::routes().merge(rollouts::routes());
        let sources = sources::routes().merge(sources::hook_routes());
        groups::routes()
            .with_state(self.parts.store.clone())
            .merge(parts.with_state(self.parts.clone()))
            .merge(runs.with_state(Arc::clone(&self.runs)))
            .merge(sources.with_state(Arc::clone(&self.sources)))
    }
}
