//! Desired repository: a function of the tenant's record and its clusters, or of the cluster's record
//! and the tenant's template.

use fairlead_api::ClusterId;
use fairlead_registry::Effective;
use fairlead_repositories::{DesiredRepo, RepoOwner};
use fairlead_store::model::{Cluster, ClusterTemplate, RepoKind, Tenant, hex};

use super::tenant_files::{declared, tenant_files};

/// `None` if the tenant has no repository, or an unmanaged one.
pub(super) fn desired_of_tenant<'a>(
    tenant: &Tenant,
    clusters: impl Iterator<Item = &'a ClusterId>,
) -> Option<DesiredRepo> {
    let repo = tenant.git_repo.as_ref();
    let repo = repo.filter(|it| it.kind == RepoKind::Auto)?.clone();
    let template = tenant.cluster_template.as_ref();
    Some(DesiredRepo {
        owner: RepoOwner::Tenant(tenant.id.clone()),
        title: tenant.shown_name().to_owned(),
        url: repo.url,
        path: repo.path,
        name: repo.repo_name,
        api_secret: repo.api_secret_ref,
        deploy_keys: repo.deploy_keys,
        creation_policy: template.and_then(|it| it.creation_policy),
        files: tenant_files(tenant, &repo.template_files, clusters),
    })
}

/// Like [`desired_of_tenant`].
pub(super) fn desired_of_cluster(
    cluster: &Cluster,
    template: Option<&ClusterTemplate>,
) -> Option<DesiredRepo> {
    let effective = Effective::of(cluster, template);
    if effective.repo_kind() != Some(RepoKind::Auto) {
        return None;
    }
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let keys = effective.own_repo().map(|own| own.deploy_keys.clone());
    Some(DesiredRepo {
        owner: RepoOwner::Cluster(cluster.id.clone()),
        title: cluster.shown_name().to_owned(),
        url: owned(effective.repo_url()),
        path: owned(effective.repo_path()),
        name: owned(effective.repo_name()),
        api_secret: effective.api_secret_ref().cloned(),
        deploy_keys: keys.unwrap_or_default(),
        creation_policy: effective.creation_policy(),
        files: declared(&effective.template_files()),
    })
}

/// Equal exactly for equal repositories. Files have a hash of their own: a tenant's repository stays
/// the same one when it gets a cluster.
pub(super) fn hash_of(desired: &DesiredRepo) -> String {
    hex::hash_of(desired)
}

/// Hash of the desired files.
pub(super) fn files_hash_of(desired: &DesiredRepo) -> Option<String> {
    (!desired.files.is_empty()).then(|| hex::hash_of(&desired.files))
}
