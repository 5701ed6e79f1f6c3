//! Modules with routes of the API, as modules of the gateway.

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use fairlead_runtime::Process;
use fairlead_seam::{Module, NamedServices, Outbound, Presence, RunningRequests};

use crate::{document_module::DocumentModule, routes::ApiRoutes, spec::RouteSpec};

/// A module of the hub with routes of the API.
pub trait ApiModule: Module {
    /// Routes with their descriptions, in the place of [`Module::user_routes`] and [`Module::open_routes`]. Called once, before
    /// [`Module::attach`].
    fn api_routes(&self) -> ApiRoutes {
        ApiRoutes::new()
    }
}

/// Modules for the gateway, with the descriptions of their routes.
pub struct ServedModules {
    /// The given modules, and one that serves the description of all.
    pub modules: Vec<Arc<dyn Module>>,
    /// Descriptions of all routes.
    pub routes: Arc<[RouteSpec]>,
}

impl ServedModules {
    /// Takes the routes of each module.
    #[must_use]
    pub fn new(given: Vec<Arc<dyn ApiModule>>) -> Self {
        let mut modules: Vec<Arc<dyn Module>> = Vec::new();
        let mut routes = DocumentModule::specs();
        for module in given {
            let ApiRoutes { users, open, specs } = module.api_routes();
            routes.extend(specs);
            modules.push(Arc::new(ServedModule {
                module,
                users,
                open,
            }));
        }
        let routes: Arc<[RouteSpec]> = routes.into();
        modules.push(Arc::new(DocumentModule::new(Arc::clone(&routes))));
        ServedModules { modules, routes }
    }
}

/// A module with the routers of its routes.
struct ServedModule {
    module: Arc<dyn ApiModule>,
    users: Router,
    open: Router,
}

#[async_trait]
impl Module for ServedModule {
    fn name(&self) -> &'static str {
        self.module.name()
    }

    fn attach(&self, presence: &Arc<dyn Presence>) {
        self.module.attach(presence);
    }

    fn attach_requests(&self, requests: &Arc<dyn RunningRequests>) {
        self.module.attach_requests(requests);
    }

    fn outbound(&self) -> Option<Arc<dyn Outbound>> {
        self.module.outbound()
    }

    fn named_services(&self) -> Option<Arc<dyn NamedServices>> {
        self.module.named_services()
    }

    fn user_routes(&self) -> Router {
        self.users.clone()
    }

    fn open_routes(&self) -> Router {
        self.open.clone()
    }

    fn agent_routes(&self) -> Router {
        self.module.agent_routes()
    }

    async fn run(&self, process: Process) {
        self.module.run(process).await;
    }
}
