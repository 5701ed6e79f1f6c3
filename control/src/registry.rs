//! Registry: tenants, clusters and API tokens, who may do what with them, and which clusters exist. It never hands out
//! what a caller may not see, and says of that exactly what it says of what does not exist.

mod access;
mod clusters;
mod directory;
mod names;
mod rights;
mod tenants;
mod tokens;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use axum::{Json, Router, extract::State, routing::get};
use fairlead_api::resources::HubInfo;
use fairlead_gateway::Module;
use fairlead_runtime::Process;
use tracing::warn;

pub(crate) use clusters::visible;
pub(crate) use directory::{RESTARTED, admit};
pub(crate) use rights::at_least;
pub(crate) use tokens::mint;

use crate::{
    hub::Hub,
    reply::{Who, finish},
};

/// An expired token is told apart from a forged one for this long.
const REMEMBER_EXPIRED: time::Duration = time::Duration::days(7);
const TIDY_EVERY: Duration = Duration::from_secs(3600);

pub(crate) struct Registry(pub(crate) Arc<Hub>);

#[async_trait]
impl Module for Registry {
    fn name(&self) -> &'static str {
        "registry"
    }

    fn people(&self) -> Router {
        let router = Router::new()
            .route("/api/v1/hub", get(about))
            .merge(tenants::routes())
            .merge(clusters::routes())
            .merge(tokens::routes());
        finish(router.with_state(Arc::clone(&self.0)))
    }

    async fn run(&self, process: Process) {
        loop {
            let before = self.0.now() - REMEMBER_EXPIRED;
            if let Err(error) = tokens::forget(&self.0, before).await {
                warn!(%error, "expired tokens cannot be forgotten");
            }
            if let Err(error) = self.0.store.tidy(&self.0.settings.retention).await {
                warn!(%error, "what is too old to be kept cannot be forgotten");
            }
            tokio::select! {
                () = process.draining() => return,
                () = tokio::time::sleep(TIDY_EVERY) => {}
            }
        }
    }
}

async fn about(State(hub): State<Arc<Hub>>, Who(caller): Who) -> Json<HubInfo> {
    let settings = &hub.settings;
    Json(HubInfo {
        version: settings.version.clone(),
        public_url: settings.public_url.clone(),
        cluster_domain: settings.cluster_domain.clone(),
        names_covered: hub.certificates.covers(&settings.cluster_domain),
        ca: settings.front_ca_pem.clone(),
        caller: caller.name,
    })
}
