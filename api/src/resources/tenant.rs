//! Tenants.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::{
    agent::AgentSettings,
    quota::TenantQuotas,
    repo::{CreationPolicy, DeletionPolicy, RepoDocument, RepoKind, TenantRepoDocument},
    repo_content::CompilePipelineDocument,
    site::SiteSettings,
};
use crate::TenantId;

/// Owner of clusters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    /// Id of the tenant.
    #[schema(required = false)]
    pub id: TenantId,
    /// Display name.
    #[schema(required = false)]
    pub display_name: String,
    /// Time of creation.
    #[serde(with = "time::serde::rfc3339")]
    #[schema(required = false, read_only)]
    pub created: OffsetDateTime,
    /// Version, incremented by every change; the first part of the ETag.
    #[schema(required = false, read_only)]
    pub version: i64,
    /// Annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Configuration repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_repo: Option<TenantRepoDocument>,
    /// URL of the global repository.
    #[serde(
        rename = "globalGitRepoURL",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub global_git_repo_url: Option<String>,
    /// Revision of the global repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_git_repo_revision: Option<String>,
    /// Parent tenant, whose members see this tenant's clusters, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_ref: Option<TenantId>,
    /// Defaults for clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_template: Option<TemplateDocument>,
    /// Upper limits of its own resources; only an admin of the hub may change them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotas: Option<TenantQuotas>,
    /// Compile pipeline of its repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compile_pipeline: Option<CompilePipelineDocument>,
    /// Fields of later versions.
    #[serde(flatten)]
    #[schema(ignore)]
    pub more: Map<String, Value>,
}

/// Defaults for fields that a cluster of the tenant leaves empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ClusterTemplate)]
pub struct TemplateDocument {
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Static facts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// Configuration repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_repo: Option<RepoDocument>,
    /// Revision of the tenant's repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_git_repo_revision: Option<String>,
    /// Revision of the global repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_git_repo_revision: Option<String>,
    /// Handling of an existing repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_policy: Option<CreationPolicy>,
    /// Handling of the repository on deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// True if clusters must not be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_protection: Option<bool>,
    /// True if the tenant's compile pipeline compiles the clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_compilation: Option<bool>,
    /// Network of the sites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteSettings>,
    /// Desired settings of the agents.
    #[serde(default, skip_serializing_if = "AgentSettings::is_empty")]
    pub agent: AgentSettings,
}

/// Body of `POST /tenants`. The default repository is unmanaged and has no URL.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateTenant {
    /// Id of the tenant; generated if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Display name; the id if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Configuration repository.
    pub git_repo: RepoDocument,
}

impl Default for CreateTenant {
    fn default() -> Self {
        let unmanaged = RepoDocument {
            kind: Some(RepoKind::Unmanaged),
            ..RepoDocument::default()
        };
        CreateTenant {
            id: None,
            display_name: None,
            git_repo: unmanaged,
        }
    }
}
