//! Messages between hubs of one database. They travel inside the inner TLS, and only a hub's certificate may send them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    ClusterId,
    hello::Instance,
    resources::{AgentSession, SessionsActivity},
};

/// Prefix of paths that mean the other hub itself. A request to a cluster has [`CLUSTER`] instead.
pub const HELLO_PATH: &str = "/hub/v1/hello";
/// Path of the sessions of one cluster at the other hub, with the cluster's id behind it.
pub const SESSIONS_PATH: &str = "/hub/v1/sessions/";
/// Path of the activity of some clusters at the other hub, by POST of [`ActivityRequest`].
pub const ACTIVITY_PATH: &str = "/hub/v1/activity";
/// Largest number of clusters of an [`ActivityRequest`].
pub const MAX_ACTIVITY_CLUSTERS: usize = 2000;
/// Limit of the body of an [`ActivityRequest`], in bytes.
pub const MAX_ACTIVITY_BYTES: usize = 256 * 1024;
/// Limit of the body of the [`HubActivity`] that answers it, in bytes.
pub const MAX_ACTIVITY_ANSWER_BYTES: usize = 4 * 1024 * 1024;
/// Path of the reason for the end of forwarded requests, by POST of [`EndedRequests`] to their first hub.
pub const ENDED_PATH: &str = "/hub/v1/ended";
/// Largest number of requests of [`EndedRequests`].
pub const MAX_ENDED_REQUESTS: usize = 2000;
/// Limit of the body of [`EndedRequests`], in bytes.
pub const MAX_ENDED_BYTES: usize = 256 * 1024;
/// Limit of the body of a [`HubHello`] and of its answer, in bytes.
pub const MAX_HELLO_BYTES: usize = 1024;
/// Cluster of a forwarded request.
pub const CLUSTER: &str = "fairlead-cluster";
/// Code of a failure of the other hub, like `FL-1409`. The body is the cause as text.
pub const HUB_CODE: &str = "fairlead-hub-code";

/// First request on each session between hubs. Another hub than the expected one answers with its own name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HubHello {
    /// Name of the sender among the hubs of the database.
    pub hub: String,
    /// Version of the sender.
    pub version: String,
}

/// Sessions of a cluster at one hub.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HubSessions {
    /// The sessions, oldest first.
    pub items: Vec<AgentSession>,
}

/// Request for the activity of clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityRequest {
    /// The clusters, at most [`MAX_ACTIVITY_CLUSTERS`].
    pub clusters: Vec<ClusterId>,
}

/// Activity of clusters at one hub.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubActivity {
    /// Version of the hub.
    pub version: String,
    /// Clusters with a session there.
    pub clusters: BTreeMap<ClusterId, HubClusterActivity>,
}

/// Activity of one cluster at one hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubClusterActivity {
    /// Agents with a session there; the same one may have a session at another hub.
    pub instances: Vec<Instance>,
    /// Activity of the sessions.
    pub sessions: SessionsActivity,
}

/// Forwarded requests that end because the identity of their agent is void.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedRequests {
    /// Ids of the requests, at most [`MAX_ENDED_REQUESTS`].
    pub ids: Vec<String>,
    /// Cause for the client.
    pub cause: String,
}
