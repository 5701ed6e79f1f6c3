//! Upgrades of agents, wave by wave. The orders are in the records of the clusters, so the configuration of each agent
//! names its own. Agents report results, and the leading hub begins the next wave or stops.
//!
//! No hub touches a Deployment: each agent changes its own, and returns to the former image by itself.

mod advance;
mod create;
mod driver;
mod report;
mod routes;
mod shown;
mod version;
mod waves;

use std::sync::Arc;

use async_trait::async_trait;
use axum::{Router, routing::post};
use fairlead_api::upgrade::UPGRADE_PATH;
use fairlead_routes::{ApiModule, ApiRoutes, reply::finish};
use fairlead_runtime::Process;
use fairlead_seam::Module;
use fairlead_store::{Clock, Store, whole_millis};
use time::OffsetDateTime;

/// Needs of the module.
struct UpgradeParts {
    store: Store,
    clock: Clock,
    /// Version of the hub.
    version: String,
    /// Image of agents in the hub's install manifests.
    image: String,
}

impl UpgradeParts {
    fn now(&self) -> OffsetDateTime {
        whole_millis(self.clock.now())
    }
}

pub(crate) struct UpgradesModule(Arc<UpgradeParts>);

impl UpgradesModule {
    /// `version`: of the hub. `image`: of agents in its install manifests.
    pub(crate) fn new(store: Store, clock: Clock, version: String, image: String) -> Self {
        UpgradesModule(Arc::new(UpgradeParts {
            store,
            clock,
            version,
            image,
        }))
    }
}

#[async_trait]
impl Module for UpgradesModule {
    fn name(&self) -> &'static str {
        "upgrades"
    }

    fn agent_routes(&self) -> Router {
        let router = Router::new().route(UPGRADE_PATH, post(report::receive));
        finish(router.with_state(Arc::clone(&self.0)))
    }

    async fn run(&self, process: Process) {
        tokio::select! {
            () = driver::run(&self.0) => {}
            () = process.draining() => {}
        }
    }
}

impl ApiModule for UpgradesModule {
    fn api_routes(&self) -> ApiRoutes {
        routes::routes().with_state(Arc::clone(&self.0))
    }
}
