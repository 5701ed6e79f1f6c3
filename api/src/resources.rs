//! The hub's own resources as its API gives and takes them, JSON in camelCase, times in RFC 3339. Every path, field and
//! answer stands in the hub's `/openapi.json` and in `docs/api.md`. Failures are [`crate::Reason`]s.

mod change;
mod cluster;
mod role;
mod status;
mod tenant;
mod token;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};

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

/// What a hub says of itself, enough to write a kubeconfig.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HubInfo {
    pub version: String,
    /// Where people and agents reach it.
    pub public_url: HubUrl,
    /// The domain under which each cluster has a name, like `clusters.hub.example`.
    pub cluster_domain: String,
    /// Whether the hub's certificate is valid for names under `cluster_domain`.
    pub names_covered: bool,
    /// The CA that a client needs to trust the hub's front, in PEM; none where the web's own does.
    pub ca: Option<String>,
    /// Who the token of this request stands for.
    pub caller: String,
}

/// A list, in the order of its ids.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct List<T> {
    pub items: Vec<T>,
}

/// For the few answers that exist to hand a secret over.
pub(crate) fn exposed<S: Serializer>(
    secret: &SecretString,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose_secret())
}
