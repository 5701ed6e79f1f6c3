//! The module, and its routes.

use async_trait::async_trait;
use fairlead_routes::{ApiModule, ApiRoutes};
use fairlead_runtime::Process;
use fairlead_seam::Module;

use crate::{artifacts, bundles, garbage, groups, parts::DeliveryParts};

/// Delivery at the hub.
pub struct DeliveryModule(DeliveryParts);

impl DeliveryModule {
    /// A module over the documents and rows of a store.
    #[must_use]
    pub fn new(parts: DeliveryParts) -> Self {
        DeliveryModule(parts)
    }
}

#[async_trait]
impl Module for DeliveryModule {
    fn name(&self) -> &'static str {
        "delivery"
    }

    async fn run(&self, process: Process) {
        tokio::select! {
            () = process.draining() => {}
            () = garbage::run(&self.0) => {}
        }
    }
}

impl ApiModule for DeliveryModule {
    fn api_routes(&self) -> ApiRoutes {
        let parts = artifacts::routes().merge(bundles::routes());
        groups::routes()
            .with_state(self.0.store.clone())
            .merge(parts.with_state(self.0.clone()))
    }
}
