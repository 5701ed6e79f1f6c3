//! Start of this hub on its database.

use std::sync::Arc;

use fairlead_api::{ClusterId, HubUrl};
use time::OffsetDateTime;
use tokio::sync::watch;

use super::Store;
use crate::{
    agent_hubs::{AgentAddress, AgentHubs},
    backend::{Heartbeat, OwnHub},
    error::Result,
    heartbeats::{HEARTBEAT_TIMEOUT, LiveHub},
    shared::HubAddresses,
};

/// Identity of this hub for the others.
#[derive(Debug, Clone)]
pub struct Presented {
    /// URL of this hub.
    pub url: HubUrl,
    /// Address of this hub for the others.
    pub address: HubUrl,
    /// Address of this hub for agents.
    pub agents: AgentAddress,
    /// Predecessor in the same place that is known to have ended, by the name from [`Store::name`].
    pub instead_of: Option<String>,
}

impl Store {
    /// Name of this hub on its database until it ends; empty if it is the only user.
    #[must_use]
    pub fn name(&self) -> &str {
        self.shared.observations.me()
    }

    /// Announces the start of this hub. Sessions end with their hub, so the predecessor's connected
    /// clusters become lost; clusters of other hubs are untouched. Returns the number of lost
    /// clusters.
    ///
    /// # Errors
    /// [`StoreError`](crate::StoreError)
    pub async fn begin(
        &self,
        presented: Presented,
        now: OffsetDateTime,
        cause: &str,
    ) -> Result<usize> {
        let shared = &self.shared;
        let Presented {
            url,
            address,
            agents,
            instead_of,
        } = presented;
        let observations = &shared.observations;
        observations.set_agent_address(url.clone(), agents.clone());
        if !shared.backend.is_shared() {
            return Ok(shared.observations.mark_sessions_lost(now, cause));
        }
        let before = shared.observations.with_session().len();
        let instead_of = instead_of.as_deref();
        let begin = Heartbeat::Begin { instead_of };
        let backend = &shared.backend;
        let me = OwnHub {
            id: self.name(),
            url: &url,
            address: &address,
            agents: &agents,
        };
        backend.beat(me, begin).await?;
        observations.join(url.clone());
        observations.apply_hubs(backend.hubs().await?, HEARTBEAT_TIMEOUT);
        shared.addresses.get_or_init(|| HubAddresses {
            url,
            internal: address,
            agents,
        });
        shared.leadership.apply();
        Ok(before.saturating_sub(shared.observations.with_session().len()))
    }

    /// True if this hub performs the tasks that one of all live hubs must do: always for the only user of a file, else
    /// while it has the leadership.
    #[must_use]
    pub fn leads(&self) -> bool {
        !self.is_shared() || self.shared.leadership.is_valid()
    }

    /// Leaves the tasks of the leading hub to the others: this hub drains.
    pub fn resign(&self) {
        self.shared.leadership.resign();
    }

    /// URL of another hub with a session of this cluster; `None` if that hub may be gone.
    #[must_use]
    pub fn elsewhere(&self, cluster: &ClusterId) -> Option<HubUrl> {
        self.shared.observations.elsewhere(cluster)
    }

    /// The other live hubs that take forwarded requests.
    #[must_use]
    pub fn live_hubs(&self) -> watch::Receiver<Arc<[LiveHub]>> {
        self.shared.observations.live_hubs_changes()
    }

    /// All live hubs as agents find them.
    #[must_use]
    pub fn agent_hubs(&self) -> Arc<AgentHubs> {
        self.shared.observations.agent_hubs()
    }

    /// Names of the other live hubs that have observed a session of this cluster, the best one first.
    #[must_use]
    pub fn hubs_with_session(&self, cluster: &ClusterId) -> Vec<Arc<str>> {
        self.shared.observations.hubs_with_session(cluster)
    }

    /// True if other hubs may work on the same database.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.shared.backend.is_shared()
    }
}
