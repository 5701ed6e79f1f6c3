//! Status of clusters and of their sessions.

use std::{fmt, net::IpAddr};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::{
    ClusterId, ClusterUid, Code, HubUrl,
    hello::{Instance, LinkIndex},
};

/// Refused agent that uses a cluster's identity in another Kubernetes cluster. The next enrolment clears the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DetectedClone {
    /// Time of its last connection.
    #[serde(with = "time::serde::rfc3339")]
    pub last_seen: OffsetDateTime,
    /// Source address of its connection, which may be that of a proxy or load balancer.
    #[schema(value_type = String)]
    pub from: IpAddr,
    /// UID of the other cluster's namespace `kube-system`.
    #[schema(value_type = String)]
    pub uid: ClusterUid,
}

/// Connection status of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Current state.
    pub state: ClusterState,
    /// Time of the last change of the state.
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
    /// Last error of a probe or a session.
    #[schema(required = true)]
    pub last_error: Option<LastError>,
    /// Time of the last answer of an agent. After the loss of a hub it can be a minute too early.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_seen: Option<OffsetDateTime>,
    /// Time of the last successful probe of the API server, through the tunnel.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_good_probe: Option<OffsetDateTime>,
    /// Hub with the best session of the cluster, if several hubs share one database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub hub: Option<HubUrl>,
}

/// Status of one cluster in a [`ClusterStatusUpdate`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterStatusEntry {
    /// Id of the cluster.
    pub id: ClusterId,
    /// Status of the cluster.
    pub status: ClusterStatus,
    /// True if the agent applies an older configuration than the desired one.
    pub outdated: bool,
}

/// Response to `GET /v1/status`: changes of the status since the previous response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterStatusUpdate {
    /// Cursor to continue from.
    pub cursor: String,
    /// True if the response has all visible clusters and replaces all earlier responses.
    pub snapshot: bool,
    /// True if visible tenants or clusters have changed, too; `/v1/changes` has the changes.
    pub changed: bool,
    /// Clusters with a new status.
    #[schema(inline)]
    pub items: Vec<ClusterStatusEntry>,
    /// Clusters that were deleted, or that the caller can no longer see.
    pub removed: Vec<ClusterId>,
}

impl ClusterStatusUpdate {
    /// True if nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.snapshot && !self.changed && self.items.is_empty() && self.removed.is_empty()
    }
}

/// An open session of a cluster's agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentSession {
    /// Hub at which the session is, if several work on one database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub hub: Option<HubUrl>,
    /// Source address of its first connection, which may be that of a proxy or load balancer.
    #[schema(value_type = String)]
    pub from: IpAddr,
    /// Time at which the session was opened.
    #[serde(with = "time::serde::rfc3339")]
    pub opened: OffsetDateTime,
    /// One run of an agent's process.
    #[schema(value_type = String)]
    pub instance: Instance,
    /// Number of the link within its agent.
    #[schema(value_type = u64)]
    pub link: LinkIndex,
    /// Version in the agent's hello: its printable characters, at most 40.
    pub agent_version: String,
    /// True if the link is connected.
    pub up: bool,
    /// True if the agent has reported the UID of the right Kubernetes cluster.
    pub recognised: bool,
    /// Number of open requests.
    pub requests: usize,
    /// Bytes of responses that the hub buffers because clients do not read them.
    #[serde(default)]
    #[schema(required = true)]
    pub unread_bytes: usize,
    /// Measured round-trip time of the link, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_micros: Option<u64>,
    /// Time of the last answer of the agent on this session.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_seen: Option<OffsetDateTime>,
    /// Time of the last successful probe of the API server on this session.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_good_probe: Option<OffsetDateTime>,
    /// Expiry of the agent's certificate.
    #[serde(with = "time::serde::rfc3339")]
    pub certificate_expires: OffsetDateTime,
}

/// Response to `GET /v1/clusters/{clusterId}/sessions`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentSessionList {
    /// Sessions at all hubs.
    pub items: Vec<AgentSession>,
    /// Live hubs of which sessions are missing, because they did not answer in time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub incomplete_hubs: Vec<HubUrl>,
}

/// State of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ClusterState {
    /// No agent has ever connected.
    Never,
    /// A probe has returned from the kube-apiserver through the tunnel within the last 15 seconds. In an idle cluster: within 35
    /// seconds, and the agent has found it ready since.
    Connected,
    /// The agent is connected, but its API server does not answer.
    ApiUnreachable,
    /// The agent is disconnected.
    Lost,
}

impl fmt::Display for ClusterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl ClusterStatus {
    /// Next step for a reader while the cluster is lost: an agent with a revoked identity never returns by itself.
    #[must_use]
    pub fn next_step_if_lost(&self) -> &'static str {
        let last = self.last_error.as_ref().map(|error| error.code);
        let revoked = last.filter(|it| *it == Code::IdentityRevoked);
        revoked.unwrap_or(Code::Lost).next_step()
    }
}

/// Cause of the state [`ClusterState::Lost`] or [`ClusterState::ApiUnreachable`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LastError {
    /// Code of the failure.
    #[schema(value_type = String, example = "FL-1402")]
    pub code: Code,
    /// Cause of the failure, one sentence.
    pub cause: String,
}
