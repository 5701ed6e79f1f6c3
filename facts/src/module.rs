//! Facts as a module of the hub.

use std::sync::Arc;

use async_trait::async_trait;
use axum::{Router, routing::post};
use fairlead_api::facts::FACTS_PATH;
use fairlead_registry::stale::Reporting;
use fairlead_routes::{ApiModule, ApiRoutes, reply::finish};
use fairlead_runtime::Process;
use fairlead_seam::Module;
use fairlead_store::{Clock, Store};

use crate::{
    find, history,
    influx::Influx,
    inventory,
    report::{self, Reports},
    show,
    state::FactsState,
};

/// Reports, history, search and export of facts.
pub struct FactsModule {
    state: Arc<FactsState>,
    reports: Arc<Reports>,
}

impl FactsModule {
    /// Creates the module over an open store.
    #[must_use]
    pub fn new(store: Store, clock: Clock, reporting: Reporting, influx: Option<Influx>) -> Self {
        FactsModule {
            state: Arc::new(FactsState {
                store,
                clock,
                reporting,
                influx: influx.map(Box::new),
            }),
            reports: Arc::default(),
        }
    }
}

#[async_trait]
impl Module for FactsModule {
    fn name(&self) -> &'static str {
        "facts"
    }

    async fn run(&self, process: Process) {
        match &self.state.influx {
            Some(influx) => influx.run(&self.state.store, &process).await,
            None => process.draining().await,
        }
    }

    fn agent_routes(&self) -> Router {
        let state = (Arc::clone(&self.state), Arc::clone(&self.reports));
        let router = Router::new().route(FACTS_PATH, post(report::take));
        finish(router.with_state(state))
    }
}

impl ApiModule for FactsModule {
    fn api_routes(&self) -> ApiRoutes {
        show::routes()
            .merge(history::routes())
            .merge(inventory::routes())
            .merge(find::routes())
            .with_state(Arc::clone(&self.state))
    }
}
