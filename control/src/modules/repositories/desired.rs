//! Desired repository: a function of the tenant's record and its clusters, or of the cluster's record
//! and the tenant's template.

use std::collections::BTreeMap;

use fairlead_api::ClusterId;
use fairlead_registry::Effective;
use fairlead_repositories::{DesiredRepo, DesiredVariable, RepoOwner, VariableSource};
use fairlead_store::model::{Cluster, ClusterTemplate, RepoKind, StoredVariable, Tenant, hex};

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
        ci_variables: variables(&repo.ci_variables),
        access_token: repo.access_token,
        tenant: tenant.id.clone(),
        compiled_clusters: Default::default(),
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
        ci_variables: (effective.own_repo())
            .map(|own| variables(&own.ci_variables))
            .unwrap_or_default(),
        access_token: effective.access_token().cloned(),
        tenant: cluster.tenant.clone(),
        compiled_clusters: Default::default(),
    })
}

/// Equal exactly for equal repositories. Files have a hash of their own: a tenant's repository stays
/// the same one when it gets a cluster.
pub(super) fn hash_of(desired: &DesiredRepo) -> String {
    hex::hash_of(desired)
}

/// Hash of the desired contents: files, CI variables and access token.
pub(super) fn contents_hash_of(desired: &DesiredRepo) -> Option<String> {
    let files = &desired.files;
    if let Some(token) = &desired.access_token {
        return Some(hex::hash_of(&(files, &desired.ci_variables, token)));
    }
    match (files.is_empty(), desired.ci_variables.is_empty()) {
        (true, true) => None,
        (false, true) => Some(hex::hash_of(files)),
        (_, false) => Some(hex::hash_of(&(files, &desired.ci_variables))),
    }
}

fn variables(stored: &BTreeMap<String, StoredVariable>) -> BTreeMap<String, DesiredVariable> {
    let variables = stored.iter().map(|(name, stored)| {
        let source = match (&stored.value_from, &stored.sealed) {
            (Some(from), _) => VariableSource::Credential(from.clone()),
            (None, Some(sealed)) => VariableSource::Sealed(sealed.clone()),
            (None, None) => VariableSource::None,
        };
        let variable = DesiredVariable {
            source,
            version: None,
            protected: stored.protected,
            masked: stored.masked,
            raw: stored.raw,
        };
        (name.clone(), variable)
    });
    variables.collect()
}
