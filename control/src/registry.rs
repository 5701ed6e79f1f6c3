//! Registry: tenants, clusters and API tokens, who may do what with them, and which clusters exist. It never hands out
//! what a caller may not see, and says of that exactly what it says of what does not exist.

mod about;
mod access;
mod bootstrap;
mod changes;
mod clusters;
mod compile;
mod directory;
mod document;
mod etag;
mod imported;
mod listing;
mod metrics;
mod names;
mod openapi;
mod openings;
mod page;
mod rights;
mod said;
mod selector;
mod standing;
mod streams;
mod template;
mod tenants;
mod tokens;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use axum::Router;
use fairlead_gateway::{Module, Presence};
use fairlead_runtime::Process;
use tracing::warn;

pub(crate) use clusters::template_of;
pub(crate) use directory::{RESTARTED, admit};
pub(crate) use etag::{answer as tagged, listed, still, still_tagged};
pub(crate) use listing::Listing;
pub(crate) use names::caller_name;
pub(crate) use openings::Openings;
pub(crate) use page::{Page, Place, next_page};
pub(crate) use rights::{Right, allow, sees_cluster, visible};
pub(crate) use said::Said;
pub(crate) use template::Effective;
pub(crate) use tokens::{find as find_token, mint, mint_for, mint_in, new as new_token};

use crate::{hub::Hub, reply::finish};

/// An expired token is told apart from a forged one for this long.
const REMEMBER_EXPIRED: time::Duration = time::Duration::days(7);
const TIDY_EVERY: Duration = Duration::from_secs(3600);

pub(crate) struct Registry(pub(crate) Arc<Hub>);

#[async_trait]
impl Module for Registry {
    fn name(&self) -> &'static str {
        "registry"
    }

    fn attach(&self, presence: &Arc<dyn Presence>) {
        let _ = self.0.presence.set(Arc::clone(presence));
    }

    fn people(&self) -> Router {
        let router = Router::new()
            .merge(about::routes())
            .merge(tenants::routes())
            .merge(clusters::routes())
            .merge(compile::routes())
            .merge(bootstrap::routes())
            .merge(imported::routes())
            .merge(changes::routes())
            .merge(standing::routes())
            .merge(tokens::routes());
        finish(router.with_state(Arc::clone(&self.0)))
    }

    fn open(&self) -> Router {
        let router = about::open().merge(openapi::open());
        finish(router.with_state(Arc::clone(&self.0)))
    }

    async fn run(&self, process: Process) {
        // Called once.
        // It is known already where this begins anew.
        let _ = self.0.process.set(process.clone());
        let registered = metrics::Registered::new(&self.0)
            .and_then(|registered| process.measure(registered))
            .and_then(|()| process.measure(self.0.store.meter()));
        if let Err(error) = registered {
            warn!(%error, "metrics of the registry are not there");
        }
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
