//! Repositories of deleted tenants and clusters, and the access of deleted clusters to Vault: a record
//! for each one that its server is to archive, delete or remove. Only those that the hub has provided
//! get one.

use fairlead_api::{ClusterId, TenantId};
use fairlead_store::{
    Draft,
    model::{
        Cluster, Credentials, DeletionPolicy, RepoKind, RepoState, RetiredRepository,
        RetiredVaultAccess, VaultNames,
    },
};
use time::OffsetDateTime;

use crate::{
    git_credentials::git_credential_of,
    template::{Effective, template_of},
};

/// Policy of tenants and clusters without one, as Lieutenant has it.
const DEFAULT_POLICY: DeletionPolicy = DeletionPolicy::Archive;

/// Retires the repository and the access to Vault of a cluster that is about to be deleted.
pub(crate) fn retire_of_cluster(draft: &mut Draft, cluster: &Cluster, deleted: OffsetDateTime) {
    let template = template_of(draft, &cluster.tenant);
    let effective = Effective::of(cluster, template);
    let policy = effective.deletion_policy();
    let secret = effective.api_secret_ref().cloned();
    let is_managed = effective.repo_kind() == Some(RepoKind::Auto);
    if let Some(state) = &cluster.vault {
        let policy = policy.unwrap_or(DEFAULT_POLICY);
        retire_vault_access(draft, &cluster.id, &state.names, policy, deleted);
    }
    if !is_managed {
        return;
    }
    let state = cluster.repo_state.as_deref();
    let owner = (cluster.id.as_str(), &cluster.tenant);
    retire(draft, owner, state, secret, policy, deleted);
}

/// Retires the repository of a tenant that is about to be deleted. Its policy is that of its
/// clusters' template.
pub(crate) fn retire_of_tenant(draft: &mut Draft, id: &TenantId, deleted: OffsetDateTime) {
    let Some(record) = draft.tenant(id).cloned() else {
        return;
    };
    let tenant = &record.value;
    let Some(repo) = tenant.git_repo.as_ref() else {
        return;
    };
    if repo.kind != RepoKind::Auto {
        return;
    }
    let template = tenant.cluster_template.as_ref();
    let policy = template.and_then(|it| it.deletion_policy);
    let secret = repo.api_secret_ref.clone();
    let state = tenant.repo_state.as_deref();
    retire(draft, (id.as_str(), id), state, secret, policy, deleted);
}

fn retire(
    draft: &mut Draft,
    (owner, tenant): (&str, &TenantId),
    state: Option<&RepoState>,
    api_secret_ref: Option<Credentials>,
    policy: Option<DeletionPolicy>,
    deleted: OffsetDateTime,
) {
    let policy = policy.unwrap_or(DEFAULT_POLICY);
    let url = state.and_then(|it| it.url.clone());
    let Some(url) = url.filter(|_| policy != DeletionPolicy::Retain) else {
        return;
    };
    // The same id may be created and deleted again.
    let id = format!("{owner}.{}", draft.next_revision().0);
    // The tenant may be deleted with its credentials before the server has done it.
    let reference = api_secret_ref.as_ref();
    let own = reference.and_then(|it| git_credential_of(draft, Some(tenant), it));
    let own = own.filter(|it| it.tenant.is_some());
    let sealed_token = own.map(|it| it.sealed.clone());
    draft.put_retired_repository(RetiredRepository {
        id,
        owner: owner.to_owned(),
        url,
        api_secret_ref,
        tenant: Some(tenant.clone()),
        sealed_token,
        access_token_id: state.and_then(|it| it.access_token_id.clone()),
        policy,
        deleted,
        reason: None,
        tried: None,
    });
}

/// Retires the parts that Vault may have for a cluster.
pub fn retire_vault_access(
    draft: &mut Draft,
    cluster: &ClusterId,
    names: &VaultNames,
    policy: DeletionPolicy,
    deleted: OffsetDateTime,
) {
    // The same id may be created and deleted again.
    let id = format!("{cluster}.{}", draft.next_revision().0);
    draft.put_retired_vault_access(RetiredVaultAccess {
        id,
        names: names.clone(),
        policy,
        deleted,
        reason: None,
        tried: None,
    });
}
