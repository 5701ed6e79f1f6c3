//! The registry as a module of the hub.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use fairlead_routes::{ApiModule, ApiRoutes};
use fairlead_runtime::Process;
use fairlead_seam::{Module, Presence};
use tracing::warn;

use crate::{
    about, activity, bootstrap, changes, clusters, compile, identity, imported, locks, metrics,
    registry::Registry, signed_in, status, tenants, tokens,
};

/// Retention of expired tokens: they answer "expired" instead of "unknown" for this long.
const EXPIRED_TOKEN_RETENTION: time::Duration = time::Duration::days(7);
/// Interval of writing the last uses of tokens.
const USES_INTERVAL: Duration = Duration::from_secs(60);
const TRIM_INTERVAL: Duration = Duration::from_secs(3600);

/// The registry as a module of the hub, and as directory, authenticator and authorizer of the gateway.
pub struct RegistryModule(pub(crate) Arc<Registry>);

impl RegistryModule {
    /// Wraps the registry.
    #[must_use]
    pub fn new(registry: Arc<Registry>) -> Self {
        RegistryModule(registry)
    }
}

#[async_trait]
impl Module for RegistryModule {
    fn name(&self) -> &'static str {
        "registry"
    }

    fn attach(&self, presence: &Arc<dyn Presence>) {
        let _ = self.0.presence.set(Arc::clone(presence));
    }

    async fn run(&self, process: Process) {
        // Called once. Set earlier only if the module restarts.
        let _ = self.0.process.set(process.clone());
        let registered = metrics::RegistryMetrics::new(&self.0)
            .and_then(|registered| process.measure(registered))
            .and_then(|()| process.measure(self.0.store.meter()));
        if let Err(error) = registered {
            warn!(%error, "registry metrics not registered");
        }
        tokio::join!(self.tidy(&process), self.record_uses(&process));
    }
}

impl RegistryModule {
    /// Writes the last uses of tokens; the store writes the rest when it closes.
    async fn record_uses(&self, process: &Process) {
        loop {
            tokio::select! {
                () = process.draining() => return,
                () = tokio::time::sleep(USES_INTERVAL) => {}
            }
            if let Err(error) = self.0.store.persist_token_uses().await {
                warn!(%error, "last uses of tokens not written");
            }
        }
    }

    async fn tidy(&self, process: &Process) {
        loop {
            let before = self.0.now() - EXPIRED_TOKEN_RETENTION;
            if let Err(error) = tokens::forget(&self.0, before).await {
                warn!(%error, "expired tokens not deleted");
            }
            if let Err(error) = locks::forget(&self.0, self.0.now()).await {
                warn!(%error, "ended locks not deleted");
            }
            if let Err(error) = signed_in::forget(&self.0).await {
                warn!(%error, "people not forgotten");
            }
            if let Err(error) = self.0.store.tidy(&self.0.settings.retention).await {
                warn!(%error, "history not trimmed");
            }
            tokio::select! {
                () = process.draining() => return,
                () = tokio::time::sleep(TRIM_INTERVAL) => {}
            }
        }
    }
}

impl ApiModule for RegistryModule {
    fn api_routes(&self) -> ApiRoutes {
        about::routes()
            .merge(activity::routes())
            .merge(tenants::routes())
            .merge(clusters::routes())
            .merge(compile::routes())
            .merge(bootstrap::routes())
            .merge(identity::routes())
            .merge(imported::routes())
            .merge(changes::routes())
            .merge(status::routes())
            .merge(tokens::routes())
            .merge(locks::routes())
            .with_state(Arc::clone(&self.0))
    }
}
