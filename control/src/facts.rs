//! Facts: takes what agents report of their clusters, shows what is known of one and since when, and finds clusters by it.
//! Nobody is shown a fact of a cluster that they may not see.

mod apply;
mod find;
mod history;
mod influx;
mod inventory;
mod report;
mod show;
mod stale;

use std::sync::Arc;

use async_trait::async_trait;
use axum::{
    Router,
    routing::{get, post},
};
use fairlead_api::facts::{FACTS_PATH, FIND_PATH};
use fairlead_gateway::Module;
use fairlead_runtime::Process;

use crate::{hub::Hub, reply::finish};
use report::Reports;

pub(crate) use influx::Influx;
pub use influx::{InfluxConfig, InfluxLogin, InfluxUrl};
pub use stale::Reporting;
pub(crate) use stale::{is_stale, seen, stale_names};

pub(crate) struct FactsModule {
    hub: Arc<Hub>,
    reports: Arc<Reports>,
}

impl FactsModule {
    pub(crate) fn new(hub: Arc<Hub>) -> Self {
        FactsModule {
            hub,
            reports: Arc::default(),
        }
    }
}

#[async_trait]
impl Module for FactsModule {
    fn name(&self) -> &'static str {
        "facts"
    }

    fn people(&self) -> Router {
        let router = Router::new()
            .route("/v1/clusters/{id}/facts", get(show::show))
            .route("/v1/clusters/{id}/facts/history", get(history::of_cluster))
            .route("/v1/facts/{name}/changes", get(history::of_fact))
            .route("/inventory", get(inventory::query).post(inventory::store))
            .route(FIND_PATH, get(find::find));
        finish(router.with_state(Arc::clone(&self.hub)))
    }

    async fn run(&self, process: Process) {
        match &self.hub.influx {
            Some(influx) => influx.run(&self.hub.store, &process).await,
            None => process.draining().await,
        }
    }

    fn agents(&self) -> Router {
        let state = (Arc::clone(&self.hub), Arc::clone(&self.reports));
        let router = Router::new().route(FACTS_PATH, post(report::take));
        finish(router.with_state(state))
    }
}
