//! How it stands with clusters.

use std::{fmt, net::IpAddr};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::{
    ClusterId, ClusterUid, Code, HubUrl,
    hello::{Instance, LinkIndex},
};

/// An agent with a cluster's identity in another Kubernetes cluster, refused. Forgotten at the next enrolment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DetectedClone {
    #[serde(with = "time::serde::rfc3339")]
    pub last_seen: OffsetDateTime,
    /// Where its connection came from, which may be a proxy or a load balancer.
    pub from: IpAddr,
    /// Of its namespace `kube-system`.
    pub uid: ClusterUid,
}

/// How it stands with a cluster, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    pub state: ClusterState,
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
    pub last_error: Option<LastError>,
    /// When an agent of it answered last. Of a cluster that was lost with the hub, up to a minute before that.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_seen: Option<OffsetDateTime>,
    /// When its API server was last found ready, through the tunnel.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_good_probe: Option<OffsetDateTime>,
    /// The hub that has its best session, where several share one database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<HubUrl>,
}

/// How it stands with one of several clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterStatusEntry {
    pub id: ClusterId,
    pub status: ClusterStatus,
    /// Its agent works by an older configuration than it should.
    pub outdated: bool,
}

/// Answer to `GET /v1/status`: what has become another since the one before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterStatusUpdate {
    /// To go on from.
    pub cursor: String,
    /// These are all that the caller sees: what was told before is void.
    pub snapshot: bool,
    /// Tenants or clusters that the caller sees were changed as well: `/v1/changes` tells which.
    pub changed: bool,
    pub items: Vec<ClusterStatusEntry>,
    /// Clusters that were deleted.
    pub removed: Vec<ClusterId>,
}

impl ClusterStatusUpdate {
    /// Nothing has become another.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        !self.snapshot && !self.changed && self.items.is_empty() && self.removed.is_empty()
    }
}

/// One session of a cluster that serves now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSession {
    /// Where its connection came from at first, which may be a proxy or a load balancer.
    pub from: IpAddr,
    #[serde(with = "time::serde::rfc3339")]
    pub opened: OffsetDateTime,
    /// One run of an agent's process.
    pub instance: Instance,
    /// Number of the link within its agent.
    pub link: LinkIndex,
    /// Version in the agent's hello: its printable characters, at most 40.
    pub agent_version: String,
    /// Whether its link is up.
    pub up: bool,
    /// Whether its agent has shown that it is in the right Kubernetes cluster.
    pub recognised: bool,
    /// Requests that run on it.
    pub requests: usize,
    /// Bytes of answers that the hub holds because their clients do not read.
    #[serde(default)]
    pub unread_bytes: usize,
    /// Round trip of its link in microseconds, once it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_micros: Option<u64>,
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_seen: Option<OffsetDateTime>,
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_good_probe: Option<OffsetDateTime>,
    /// When its certificate ends, unless it is renewed before.
    #[serde(with = "time::serde::rfc3339")]
    pub certificate_expires: OffsetDateTime,
}

/// `Connected` means that a probe came back from the kube-apiserver through the tunnel within the last 15 seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterState {
    Never,
    Connected,
    ApiUnreachable,
    Lost,
}

impl fmt::Display for ClusterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why a cluster was lost or its API server not reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    pub code: Code,
    pub cause: String,
}
