//! Credentials of Git servers in the store, selected by `gitRepo.apiSecretRef`.

use fairlead_api::{TenantId, resources::Credentials};
use fairlead_store::{View, model::GitCredential};

/// Stored credential of a reference. Without a namespace it is the tenant's own, else the hub's. A namespace
/// selects the tenant with that id, and no tenant reaches the credentials of another one.
#[must_use]
pub fn git_credential_of<'a>(
    view: &'a View,
    tenant: Option<&TenantId>,
    reference: &Credentials,
) -> Option<&'a GitCredential> {
    let stored = |tenant: Option<&TenantId>| {
        let id = GitCredential::id_of(tenant, &reference.name);
        Some(&view.git_credential(&id)?.value).filter(|it| it.tenant.as_ref() == tenant)
    };
    let own = || stored(Some(tenant?));
    match &reference.namespace {
        None => own().or_else(|| stored(None)),
        Some(namespace) if tenant.is_some_and(|it| it.as_str() == namespace) => own(),
        Some(_) => None,
    }
}
