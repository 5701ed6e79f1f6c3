//! Clusters and their bootstrap tokens.

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;

use super::status::{ClusterStatus, DetectedClone};
use crate::{ClusterId, ClusterUid, TenantId, secret::exposed};

/// A registered Kubernetes cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Id of the cluster.
    pub id: ClusterId,
    /// Tenant that owns the cluster.
    pub tenant: TenantId,
    /// Display name, also used in context names.
    pub display_name: String,
    /// Time of registration.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    /// Version, incremented by every change; the first part of the ETag.
    pub version: i64,
    /// Connection status.
    pub status: ClusterStatus,
    /// UID of the namespace `kube-system`, reported by the first agent. Agents of other clusters are refused (`FL-2112`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<ClusterUid>,
    /// Last refused agent that uses this cluster's identity in another cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone: Option<DetectedClone>,
    /// True if an agent has enrolled since the cluster was registered or moved.
    #[serde(default)]
    pub enrolled: bool,
    /// URL of Steward's manifests, for callers that may enrol agents, while the bootstrap token is valid. The URL contains
    /// the token, so it is never serialized: people store printed clusters as documents.
    #[serde(rename = "installURL", default, skip_serializing)]
    pub install_url: Option<String>,
    /// All other fields of the API.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Body of `POST /clusters`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateCluster {
    /// Id of the cluster; generated if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Display name; the id if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Tenant that owns the cluster.
    pub tenant: TenantId,
    /// All other fields of the API.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Invitation for one agent, in responses to `POST /clusters` and `/v1/clusters/{id}/bootstrap-token`. The join string and
/// both URLs contain the same bootstrap token, which is valid for one enrolment until `expires`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinInfo {
    /// Id of the cluster.
    pub id: ClusterId,
    /// Tenant of the cluster.
    pub tenant: TenantId,
    /// Display name of the cluster.
    pub display_name: String,
    /// Join string for `fairlead agent --join`.
    #[serde(serialize_with = "exposed")]
    pub join: SecretString,
    /// URL of the agent's install manifest.
    #[serde(rename = "agentInstallURL", serialize_with = "exposed")]
    pub agent_install_url: SecretString,
    /// URL of the manifests of Project Syn's Steward.
    #[serde(rename = "installURL", serialize_with = "exposed")]
    pub install_url: SecretString,
    /// Expiry of the bootstrap token.
    #[serde(with = "time::serde::rfc3339")]
    pub expires: OffsetDateTime,
}

/// Status of a cluster's current bootstrap token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapToken {
    /// Cluster of the token.
    pub cluster: ClusterId,
    /// Tenant of the cluster.
    pub tenant: TenantId,
    /// Generation, incremented by every new token; tokens of older generations are void.
    pub generation: i64,
    /// State of the token.
    pub state: BootstrapState,
    /// Expiry of the token.
    #[serde(with = "time::serde::rfc3339")]
    pub expires: OffsetDateTime,
    /// Caller that created the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
}

/// State of a bootstrap token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BootstrapState {
    /// An agent can enrol with it.
    Valid,
    /// An agent has enrolled with it.
    Used,
    /// Its lifetime is over.
    Expired,
    /// It was revoked.
    Revoked,
}
