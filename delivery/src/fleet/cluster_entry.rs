//! The hub's knowledge of one cluster, as far as deliveries need it.

use std::sync::Arc;

use fairlead_api::resources::ClusterState;
use fairlead_rollout::UnixMillis;
use fairlead_store::{Observed, Record, model::Cluster};

/// A cluster.
#[derive(Debug, Clone)]
pub(crate) struct ClusterEntry {
    pub(crate) record: Arc<Record<Cluster>>,
    /// True if an agent is connected.
    pub(crate) connected: bool,
    /// Start of the connection status.
    pub(crate) since: UnixMillis,
    /// Sum of the digests of all reports: the base of the next ones.
    pub(crate) reports: u128,
}

impl ClusterEntry {
    pub(crate) fn new(record: Arc<Record<Cluster>>, observed: Option<&Observed>) -> Self {
        let created = record.value.created.into();
        let mut entry = ClusterEntry {
            record,
            connected: false,
            since: created,
            reports: 0,
        };
        if let Some(observed) = observed {
            entry.observe(observed);
        }
        entry
    }

    /// Takes a status. True if the cluster is connected or disconnected now and was not before.
    pub(crate) fn observe(&mut self, observed: &Observed) -> bool {
        // With an unreachable API server the agent is connected, and deliveries fail.
        let connected = matches!(
            observed.status.state,
            ClusterState::Connected | ClusterState::ApiUnreachable
        );
        self.since = observed.status.since.into();
        std::mem::replace(&mut self.connected, connected) != connected
    }

    /// ETag of all reports.
    pub(crate) fn reports_etag(&self) -> String {
        format!("{:032x}", self.reports)
    }
}
