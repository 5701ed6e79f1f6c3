//! Messages between hubs of one database. They travel inside the inner TLS, and only a hub's certificate may send them.

use serde::{Deserialize, Serialize};

use crate::resources::AgentSession;

/// Prefix of paths that mean the other hub itself. A request to a cluster has [`CLUSTER`] instead.
pub const HELLO_PATH: &str = "/hub/v1/hello";
/// Path of the sessions of one cluster at the other hub, with the cluster's id behind it.
pub const SESSIONS_PATH: &str = "/hub/v1/sessions/";
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
