//! Clusters and their bootstrap tokens.

use std::collections::BTreeMap;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::{
    compile::CompileMeta,
    repo::{CreationPolicy, DeletionPolicy, KubeApi, RepoDocument},
    site::SiteSettings,
    status::{ClusterStatus, DetectedClone},
    vault::VaultAccess,
};
use crate::{
    ClusterId, ClusterUid, TenantId,
    secret::{exposed, exposed_option},
};

/// A registered Kubernetes cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Id of the cluster.
    #[schema(required = false)]
    pub id: ClusterId,
    /// Tenant that owns the cluster.
    #[schema(required = false)]
    pub tenant: TenantId,
    /// Display name, also used in context names.
    #[schema(required = false)]
    pub display_name: String,
    /// Time of registration.
    #[serde(with = "time::serde::rfc3339")]
    #[schema(required = false, read_only)]
    pub created: OffsetDateTime,
    /// Version, incremented by every change; the first part of the ETag.
    #[schema(required = false, read_only)]
    pub version: i64,
    /// Connection status.
    #[schema(required = false)]
    pub status: ClusterStatus,
    /// UID of the namespace `kube-system`, reported by the first agent. Agents of other clusters are refused (`FL-2112`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, read_only)]
    pub uid: Option<ClusterUid>,
    /// Last refused agent that uses this cluster's identity in another cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(read_only)]
    pub clone: Option<DetectedClone>,
    /// True if an agent has enrolled since the cluster was registered or moved.
    #[serde(default)]
    #[schema(read_only)]
    pub enrolled: bool,
    /// URL of Steward's manifests, for callers that may enrol agents, while the bootstrap token is valid. The URL contains
    /// the token, so it is never serialized: people store printed clusters as documents.
    #[serde(rename = "installURL", default, skip_serializing_if = "is_hidden")]
    #[schema(read_only)]
    pub install_url: Option<String>,
    /// Names of the dynamic facts with a source that has stopped reporting.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(read_only)]
    pub stale_facts: Vec<String>,
    /// Facts reported by programs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dynamic_facts: BTreeMap<String, Value>,
    /// Access to Vault, if the hub manages one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(read_only)]
    pub vault: Option<VaultAccess>,
    /// Report of the last compilation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compile_meta: Option<CompileMeta>,
    /// Fields set by people.
    #[serde(flatten)]
    pub fields: ClusterFields,
    /// Fields of later versions.
    #[serde(flatten)]
    #[schema(ignore)]
    pub more: Map<String, Value>,
}

/// True for every value. `skip_serializing` would remove the field from the schema as well.
const fn is_hidden(_: &Option<String>) -> bool {
    true
}

/// Fields of a cluster that people set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFields {
    /// Annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Facts set by people.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
    /// Repository of the catalog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_repo: Option<RepoDocument>,
    /// Revision of the tenant's repository; overrides that of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_git_repo_revision: Option<String>,
    /// Revision of the global repository; overrides that of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_git_repo_revision: Option<String>,
    /// Direct address of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_api: Option<KubeApi>,
    /// Handling of an existing repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_policy: Option<CreationPolicy>,
    /// Handling of the repository on deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// True if the cluster must not be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_protection: Option<bool>,
    /// True: the agent applies the catalog of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver_catalog: Option<bool>,
    /// True if the tenant's compile pipeline compiles the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_compilation: Option<bool>,
    /// Network of the site; unset fields come from the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteSettings>,
}

/// Body of `POST /clusters`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
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
    #[schema(value_type = Cluster)]
    pub more: Map<String, Value>,
}

/// Response to the creation of a cluster.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CreatedCluster {
    /// The cluster.
    #[serde(flatten)]
    pub cluster: Cluster,
    /// Invitation of its agent; empty for callers that may not enrol agents.
    #[serde(flatten)]
    pub invitation: AgentInvitation,
}

/// Invitation of the agent of a new cluster, beside the cluster's own fields.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct AgentInvitation {
    /// Join string for `fairlead agent --join`.
    #[serde(
        default,
        serialize_with = "exposed_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>)]
    pub join: Option<SecretString>,
    /// URL of the agent's install manifest.
    #[serde(
        rename = "agentInstallURL",
        default,
        serialize_with = "exposed_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>)]
    pub agent_install_url: Option<SecretString>,
    /// URL of the values of the chart `fairlead-agent`.
    #[serde(
        rename = "agentValuesURL",
        default,
        serialize_with = "exposed_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>)]
    pub agent_values_url: Option<SecretString>,
    /// Expiry of the bootstrap token.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub expires: Option<OffsetDateTime>,
}

/// Body of `POST /v1/clusters/{id}/tenant`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveCluster {
    /// New tenant of the cluster.
    pub tenant: TenantId,
}

/// Invitation for one agent, in responses to `POST /clusters` and `/v1/clusters/{id}/bootstrap-token`. The join string and
/// both URLs contain the same bootstrap token, which is valid for one enrolment until `expires`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
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
    #[schema(value_type = String)]
    pub join: SecretString,
    /// URL of the agent's install manifest.
    #[serde(rename = "agentInstallURL", serialize_with = "exposed")]
    #[schema(value_type = String)]
    pub agent_install_url: SecretString,
    /// URL of the values of the chart `fairlead-agent`.
    #[serde(rename = "agentValuesURL", serialize_with = "exposed")]
    #[schema(value_type = String)]
    pub agent_values_url: SecretString,
    /// URL of the manifests of Project Syn's Steward.
    #[serde(rename = "installURL", serialize_with = "exposed")]
    #[schema(value_type = String)]
    pub install_url: SecretString,
    /// Expiry of the bootstrap token.
    #[serde(with = "time::serde::rfc3339")]
    pub expires: OffsetDateTime,
}

/// Status of a cluster's current bootstrap token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
