//! Resources of the hub's own API: JSON in camelCase, times in RFC 3339. The hub's `/openapi.json` describes every path and
//! field. Failures are [`crate::Reason`]s.

mod change;
mod cluster;
mod role;
mod status;
mod tenant;
mod token;

use serde::{Deserialize, Serialize};

use crate::HubUrl;

pub use change::{ChangeEntry, Changes};
pub use cluster::{BootstrapState, BootstrapToken, Cluster, CreateCluster, JoinInfo};
pub use role::{Role, UnknownRole};
pub use status::{
    AgentSession, ClusterState, ClusterStatus, ClusterStatusEntry, ClusterStatusUpdate,
    DetectedClone, LastError,
};
pub use tenant::{CreateTenant, NewRepo, Tenant};
pub use token::{ApiToken, CreateToken, CreatedToken, WhoAmI};

/// Response to `GET /v1/hub`: the data to write a kubeconfig.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HubInfo {
    /// Version of the hub.
    pub version: String,
    /// URL for people and agents.
    pub public_url: HubUrl,
    /// Domain of the cluster names, like `clusters.hub.example`.
    pub cluster_domain: String,
    /// True if the hub's certificate is valid for names under `cluster_domain`.
    pub names_covered: bool,
    /// CA of the hub's certificate, in PEM; `None` for a public CA.
    pub ca: Option<String>,
    /// Name of the authenticated caller.
    pub caller: String,
}

/// List of resources, ordered by id.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct List<T> {
    /// Resources of the list.
    pub items: Vec<T>,
}
