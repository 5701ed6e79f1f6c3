//! The module, and its routes.

use async_trait::async_trait;
use fairlead_routes::{ApiModule, ApiRoutes};
use fairlead_seam::Module;

use crate::{groups, parts::DeliveryParts};

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
}

impl ApiModule for DeliveryModule {
    fn api_routes(&self) -> ApiRoutes {
        groups::routes().with_state(self.0.store.clone())
    }
}
