//! Desired repository: a function of the tenant's record, or of the cluster's and the tenant's
//! template.

use std::{collections::BTreeMap, fmt};

use fairlead_api::{ClusterId, TenantId};
use fairlead_registry::Effective;
use fairlead_store::model::{
    Cluster, ClusterTemplate, CreationPolicy, Credentials, DeployKey, RepoKind, Tenant, hex,
};
use serde::Serialize;

/// Owner of a repository's content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RepoOwner {
    /// Owner of the shared configuration of its clusters.
    Tenant(TenantId),
    /// Owner of its compiled catalog.
    Cluster(ClusterId),
}

impl fmt::Display for RepoOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RepoOwner::Tenant(id) => id.fmt(f),
            RepoOwner::Cluster(id) => id.fmt(f),
        }
    }
}

/// A repository that a Git server is to provide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DesiredRepo {
    /// Owner of the repository.
    pub owner: RepoOwner,
    /// `None` if the server chooses it by `path` and `name`.
    pub url: Option<String>,
    /// Its group or project.
    pub path: Option<String>,
    /// Its name within the group.
    pub name: Option<String>,
    /// Credentials for the server's API.
    pub api_secret: Option<Credentials>,
    /// Complete list of deploy keys; `steward` is the agent's.
    pub deploy_keys: BTreeMap<String, DeployKey>,
    /// Whether an existing repository may be adopted. Defaults to `Create`.
    pub creation_policy: Option<CreationPolicy>,
}

impl DesiredRepo {
    /// `None` if the tenant has no repository, or an unmanaged one.
    pub(super) fn of_tenant(tenant: &Tenant) -> Option<Self> {
        let repo = tenant.git_repo.as_ref();
        let repo = repo.filter(|it| it.kind == RepoKind::Auto)?.clone();
        Some(DesiredRepo {
            owner: RepoOwner::Tenant(tenant.id.clone()),
            url: repo.url,
            path: repo.path,
            name: repo.repo_name,
            api_secret: repo.api_secret_ref,
            deploy_keys: repo.deploy_keys,
            creation_policy: None,
        })
    }

    /// Like [`DesiredRepo::of_tenant`].
    pub(super) fn of_cluster(
        cluster: &Cluster,
        template: Option<&ClusterTemplate>,
    ) -> Option<Self> {
        let effective = Effective::of(cluster, template);
        if effective.repo_kind() != Some(RepoKind::Auto) {
            return None;
        }
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let keys = effective.own_repo().map(|own| own.deploy_keys.clone());
        Some(DesiredRepo {
            owner: RepoOwner::Cluster(cluster.id.clone()),
            url: owned(effective.repo_url()),
            path: owned(effective.repo_path()),
            name: owned(effective.repo_name()),
            api_secret: effective.api_secret_ref().cloned(),
            deploy_keys: keys.unwrap_or_default(),
            creation_policy: effective.creation_policy(),
        })
    }

    /// Equal exactly for equal repositories.
    pub(super) fn hash(&self) -> String {
        hex::hash_of(self)
    }
}
