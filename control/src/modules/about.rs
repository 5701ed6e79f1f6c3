//! `GET /v1/hub`: settings of the hub for a kubeconfig.

use std::sync::Arc;

use axum::{Json, extract::State};
use fairlead_api::{HubUrl, resources::HubInfo};
use fairlead_routes::{ApiModule, ApiRoutes, RouteSpec, Tag, reply::Authenticated};
use fairlead_seam::Module;

/// Public settings of the hub.
pub(crate) struct About {
    pub(crate) public_url: HubUrl,
    pub(crate) cluster_domain: String,
    pub(crate) version: String,
    /// CA that clients need to trust the front; `None` if public CAs suffice.
    pub(crate) front_ca_pem: Box<dyn Fn() -> Option<String> + Send + Sync>,
    /// True if the front's certificate covers the names below a domain.
    pub(crate) covers: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

pub(crate) struct AboutModule(pub(crate) Arc<About>);

impl Module for AboutModule {
    fn name(&self) -> &'static str {
        "about"
    }
}

impl ApiModule for AboutModule {
    fn api_routes(&self) -> ApiRoutes {
        let hub = RouteSpec::get(
            Tag::SYSTEM,
            "/v1/hub",
            "getHub",
            "Properties of the hub for kubeconfigs",
        );
        ApiRoutes::new()
            .route(hub.gives::<HubInfo>(200), show)
            .with_state(Arc::clone(&self.0))
    }
}

async fn show(
    State(about): State<Arc<About>>,
    Authenticated(caller): Authenticated,
) -> Json<HubInfo> {
    Json(HubInfo {
        version: about.version.clone(),
        public_url: about.public_url.clone(),
        cluster_domain: about.cluster_domain.clone(),
        names_covered: (about.covers)(&about.cluster_domain),
        ca: (about.front_ca_pem)(),
        caller: caller.name,
    })
}
