//! A tenant, and what its clusters get where they say nothing themselves.

use std::collections::BTreeMap;

use fairlead_api::TenantId;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{
    agent::AgentSettings,
    git::{CreationPolicy, DeletionPolicy, GitRepo, RepoState},
};

/// Owner of clusters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    pub id: TenantId,
    /// Its people see this one's clusters, too. There are no cycles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TenantId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_repo: Option<GitRepo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo_state: Option<RepoState>,
    /// Revision of `git_repo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_git_repo_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_git_repo_revision: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_template: Option<ClusterTemplate>,
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
}

impl Tenant {
    /// One of which nobody has said anything yet.
    #[must_use]
    pub fn new(id: TenantId, created: OffsetDateTime) -> Self {
        Tenant {
            id,
            parent: None,
            display_name: None,
            annotations: BTreeMap::new(),
            git_repo: None,
            repo_state: None,
            revision: None,
            global_git_repo_url: None,
            global_git_repo_revision: None,
            cluster_template: None,
            created,
        }
    }

    /// Its name for people.
    #[must_use]
    pub fn shown_name(&self) -> &str {
        self.display_name.as_deref().unwrap_or(self.id.as_str())
    }
}

/// Fills what a cluster of the tenant leaves empty; never what it says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterTemplate {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Static facts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_repo: Option<GitRepo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_git_repo_revision: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_git_repo_revision: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_policy: Option<CreationPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_protection: Option<bool>,
    #[serde(default, skip_serializing_if = "AgentSettings::is_empty")]
    pub agent: AgentSettings,
}
