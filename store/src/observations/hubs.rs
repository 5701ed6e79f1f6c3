//! The other hubs, and their sessions of clusters.

use std::sync::Arc;

use fairlead_api::{ClusterId, HubUrl};
use tokio::{sync::watch, time::Instant};

use super::{ObservationTable, Observations};
use crate::{
    agent_hubs::{AgentAddress, AgentHubs},
    heartbeats::{LiveHub, has_session},
    observed::rank,
};

impl Observations {
    /// URL of another hub with a session of this cluster, if its heartbeat is recent.
    pub(crate) fn elsewhere(&self, cluster: &ClusterId) -> Option<HubUrl> {
        let shown = self.get(cluster)?;
        let hub = shown.by.as_ref().filter(|_| has_session(&shown.status))?;
        self.table().peers.recent_url(hub, Instant::now()).cloned()
    }

    /// Sets URL and address of this hub for agents.
    pub(crate) fn set_agent_address(&self, url: HubUrl, address: AgentAddress) {
        let mut table = self.table();
        table.agents = Some((url, address));
        self.list_agent_hubs(&table);
    }

    pub(super) fn list_agent_hubs(&self, table: &ObservationTable) {
        let Some((url, address)) = &table.agents else {
            return;
        };
        let (others, has_others) = (
            table.peers.agent_addresses(),
            table.peers.has_others(&self.me),
        );
        let hubs = AgentHubs::of((url, address), others, has_others);
        self.agent_hubs.store(Arc::new(hubs));
    }

    pub(crate) fn agent_hubs(&self) -> Arc<AgentHubs> {
        self.agent_hubs.load_full()
    }

    pub(crate) fn live_hubs_changes(&self) -> watch::Receiver<Arc<[LiveHub]>> {
        self.hubs.subscribe()
    }

    /// Names of the other live hubs with a session of this cluster, the best one first.
    pub(crate) fn hubs_with_session(&self, cluster: &ClusterId) -> Vec<Arc<str>> {
        let table = self.table();
        let rows = table.others.get(cluster).into_iter().flatten();
        let with_session =
            rows.filter(|(hub, it)| has_session(&it.status) && table.peers.is_alive(hub));
        let mut found: Vec<_> = with_session.collect();
        found.sort_by_key(|(_, it)| rank(&it.status));
        found.iter().map(|(hub, _)| hub.as_str().into()).collect()
    }

    /// Number of live hubs, this one included.
    pub(crate) fn live_hubs(&self) -> u32 {
        self.table().peers.live_others(&self.me).saturating_add(1)
    }
}
