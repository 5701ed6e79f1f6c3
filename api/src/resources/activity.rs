//! Activity of clusters, for `fairlead top`.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::ClusterState;
use crate::{ClusterId, TenantId};

/// Status of a cluster, and what its sessions on this hub carry.
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
    /// Activity on this hub; none without a session here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<SessionsActivity>,
}

/// Activity of a cluster's sessions on one hub. Counts begin anew after the last session has ended.
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

/// Activity of all visible clusters at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Activity {
    /// Time of this answer by the hub's clock.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Clusters in the order of their ids.
    pub clusters: Vec<ClusterActivity>,
}
