//! Clusters, as the command line reads and writes them.

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;

use super::{ClusterStatus, DetectedClone, exposed};
use crate::{ClusterId, ClusterUid, TenantId};

/// One Kubernetes cluster, registered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    pub id: ClusterId,
    pub tenant: TenantId,
    pub display_name: String,
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    /// Rises with every change; it is the start of the ETag.
    pub version: i64,
    pub status: ClusterStatus,
    /// UID of its namespace `kube-system`, once an agent has told it: an agent of another one is refused (`FL-2112`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<ClusterUid>,
    /// The last agent that was refused because it has this cluster's identity in another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone: Option<DetectedClone>,
    /// Whether an agent has enrolled since the cluster was registered or moved.
    #[serde(default)]
    pub enrolled: bool,
    /// Manifests for Steward. While the bootstrap token is valid and unused, and to callers with the right to invite. It
    /// holds that token, so it is read and never written: a printed cluster is a document that people keep.
    #[serde(rename = "installURL", default, skip_serializing)]
    pub install_url: Option<String>,
    /// Whatever else the hub says of it; see `docs/api.md`.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Body of `POST /clusters`, as far as the command line needs it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateCluster {
    /// Made up where missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Shown to people and used as context name; the id where missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    pub tenant: TenantId,
    /// Whatever else is to be said of it; see `docs/api.md`.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What lets one agent enrol: in the answer to `POST /clusters`, and all of that of `/v1/clusters/{id}/bootstrap-token`.
/// `join` and both URLs hold the same bootstrap token, good for one enrolment until `expires`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinInfo {
    pub id: ClusterId,
    pub tenant: TenantId,
    pub display_name: String,
    #[serde(serialize_with = "exposed")]
    pub join: SecretString,
    /// Manifests for our agent.
    #[serde(rename = "agentInstallURL", serialize_with = "exposed")]
    pub agent_install_url: SecretString,
    /// Manifests for Project Syn's Steward.
    #[serde(rename = "installURL", serialize_with = "exposed")]
    pub install_url: SecretString,
    #[serde(with = "time::serde::rfc3339")]
    pub expires: OffsetDateTime,
}

/// How it stands with a cluster's bootstrap token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapToken {
    pub cluster: ClusterId,
    pub tenant: TenantId,
    /// Rises with every new token; older ones are void.
    pub generation: i64,
    pub state: BootstrapState,
    #[serde(with = "time::serde::rfc3339")]
    pub expires: OffsetDateTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BootstrapState {
    Valid,
    Used,
    Expired,
    Revoked,
}
