//! A tenant, and defaults for its clusters.

use std::collections::{BTreeMap, BTreeSet};

use fairlead_api::{
    ClusterId, TenantId,
    resources::{AgentSettings, CreationPolicy, DeletionPolicy, SiteSettings, TenantQuotas},
};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::git::{CompilePipeline, GitRepo, RepoState};

/// Owner of clusters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    /// Id of the tenant.
    pub id: TenantId,
    /// Parent tenant, whose members see this tenant's clusters, too. Never cyclic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TenantId>,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Annotations set by people.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Configuration repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_repo: Option<Box<GitRepo>>,
    /// Status of the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo_state: Option<Box<RepoState>>,
    /// Former clusters whose files are to be removed from the repository.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub former_clusters: BTreeSet<ClusterId>,
    /// Compile pipeline of its repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compile_pipeline: Option<CompilePipeline>,
    /// Clusters that the pipeline in the repository compiles.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub compiled_clusters: BTreeSet<ClusterId>,
    /// Revision of `git_repo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// URL of the global repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_git_repo_url: Option<String>,
    /// Revision of the global repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_git_repo_revision: Option<String>,
    /// Defaults for clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_template: Option<ClusterTemplate>,
    /// Upper limits of its own resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotas: Option<TenantQuotas>,
    /// Time of creation.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
}

impl Tenant {
    /// A tenant with default settings.
    #[must_use]
    pub fn new(id: TenantId, created: OffsetDateTime) -> Self {
        Tenant {
            id,
            parent: None,
            display_name: None,
            annotations: BTreeMap::new(),
            git_repo: None,
            repo_state: None,
            former_clusters: BTreeSet::new(),
            compile_pipeline: None,
            compiled_clusters: BTreeSet::new(),
            revision: None,
            global_git_repo_url: None,
            global_git_repo_revision: None,
            cluster_template: None,
            quotas: None,
            created,
        }
    }

    /// Display name, or the id without one.
    #[must_use]
    pub fn shown_name(&self) -> &str {
        self.display_name.as_deref().unwrap_or(self.id.as_str())
    }
}

/// Defaults for fields that a cluster of the tenant leaves empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterTemplate {
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Static facts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// Configuration repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_repo: Option<GitRepo>,
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
