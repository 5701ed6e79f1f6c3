//! Activity of clusters, for `fairlead top`.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::ClusterState;
use crate::{ClusterId, HubUrl, TenantId};

/// Status of a cluster, and what its sessions carry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterActivity {
    /// Cluster id.
    #[schema(value_type = String)]
    pub id: ClusterId,
    /// Tenant of the cluster.
    #[schema(value_type = String)]
    pub tenant: TenantId,
    /// Name for people.
    pub display_name: String,
    /// State at all hubs.
    pub state: ClusterState,
    /// Start of this state.
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
    /// Time of the last answer of an agent.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_seen: Option<OffsetDateTime>,
    /// Activity at all hubs that have answered; none without a session there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<SessionsActivity>,
    /// The same by hub; empty for the only hub of a store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hubs: Vec<HubSessionsActivity>,
}

/// Activity of a cluster's sessions at one of several hubs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HubSessionsActivity {
    /// URL of the hub.
    #[schema(value_type = String)]
    pub hub: HubUrl,
    /// Activity there.
    pub sessions: SessionsActivity,
}

/// Activity of a cluster's sessions. Counts of a hub begin anew after the last session there has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionsActivity {
    /// Number of agents.
    pub agents: usize,
    /// Versions of the agents, without duplicates.
    pub agent_versions: Vec<String>,
    /// Shortest round-trip time, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_micros: Option<u64>,
    /// Number of open requests.
    pub requests_open: usize,
    /// Requests so far.
    pub requests_total: u64,
    /// Bytes from the cluster so far.
    pub bytes_in: u64,
    /// Bytes to the cluster so far.
    pub bytes_out: u64,
}

impl SessionsActivity {
    /// Adds the activity at another hub, except for the number of agents: one may have sessions at both.
    pub fn add(&mut self, other: &SessionsActivity) {
        for version in &other.agent_versions {
            if !self.agent_versions.contains(version) {
                self.agent_versions.push(version.clone());
            }
        }
        self.rtt_micros = self.rtt_micros.into_iter().chain(other.rtt_micros).min();
        self.requests_open += other.requests_open;
        self.requests_total = self.requests_total.saturating_add(other.requests_total);
        self.bytes_in = self.bytes_in.saturating_add(other.bytes_in);
        self.bytes_out = self.bytes_out.saturating_add(other.bytes_out);
    }
}

/// Version of one of several hubs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HubVersion {
    /// URL of the hub.
    #[schema(value_type = String)]
    pub hub: HubUrl,
    /// Version of its program.
    pub version: String,
}

/// Activity of all visible clusters at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Activity {
    /// Time of this answer by the hub's clock.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Clusters in the order of their ids.
    pub clusters: Vec<ClusterActivity>,
    /// Hubs that have answered; empty for the only hub of a store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hubs: Vec<HubVersion>,
    /// Live hubs without an answer in time. The activity at them is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub incomplete_hubs: Vec<HubUrl>,
}
