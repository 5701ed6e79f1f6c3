//! Permissions of roles, and visibility: all, a tenant with its descendants, or one cluster.
//!
//! Visibility is checked first. A hidden resource is answered like a missing one, whatever the
//! role.

use std::sync::Arc;

use fairlead_api::{ClusterId, TenantId};
use fairlead_routes::{Denied, Right};
use fairlead_seam::Caller;
use fairlead_store::{
    Record, View,
    model::{Cluster, Tenant, Token},
};

use crate::error::RegistryError;

/// Checks a permission.
///
/// # Errors
/// `FL-1201`
pub fn allow(caller: &Caller, right: Right) -> Result<(), RegistryError> {
    let Denied { detail, next } = match right.check(caller) {
        Ok(()) => return Ok(()),
        Err(denied) => denied,
    };
    Err(RegistryError::NotAllowed { detail, next })
}

/// True if the caller may know of the tenant.
pub(crate) fn sees_tenant(view: &View, caller: &Caller, tenant: &TenantId) -> bool {
    match (&caller.cluster, &caller.tenant) {
        (Some(_), _) => false,
        (None, None) => true,
        (None, Some(own)) => view.within(tenant, own),
    }
}

/// True if the caller may know of the cluster.
pub fn sees_cluster(view: &View, caller: &Caller, cluster: &Cluster) -> bool {
    match &caller.cluster {
        Some(own) => *own == cluster.id,
        None => match &caller.tenant {
            None => true,
            Some(own) => view.within(&cluster.tenant, own),
        },
    }
}

/// The cluster if it exists and is visible; both cases take the same lookup.
///
/// # Errors
/// `FL-1301`
pub fn visible(
    view: &View,
    caller: &Caller,
    id: &str,
) -> Result<Arc<Record<Cluster>>, RegistryError> {
    let id: ClusterId = id.parse().map_err(|_| RegistryError::NoSuchCluster)?;
    let cluster = view.cluster(&id);
    let cluster = cluster.filter(|it| sees_cluster(view, caller, &it.value));
    cluster.cloned().ok_or(RegistryError::NoSuchCluster)
}

/// The tenant if it exists and is visible.
///
/// # Errors
/// `FL-4107`
pub(crate) fn visible_tenant(
    view: &View,
    caller: &Caller,
    id: &str,
) -> Result<Arc<Record<Tenant>>, RegistryError> {
    let id: TenantId = id.parse().map_err(|_| RegistryError::NoSuchTenant)?;
    let tenant = view.tenant(&id);
    let tenant = tenant.filter(|_| sees_tenant(view, caller, &id));
    tenant.cloned().ok_or(RegistryError::NoSuchTenant)
}

/// Tenant of a token; `None` for all tenants.
pub(crate) fn tenant_of<'a>(view: &'a View, token: &'a Token) -> Option<&'a TenantId> {
    match &token.cluster {
        Some(cluster) => view.cluster(cluster).map(|it| &it.value.tenant),
        None => token.tenant.as_ref(),
    }
}

pub(crate) fn sees_token(view: &View, caller: &Caller, token: &Token) -> bool {
    let tenant = tenant_of(view, token);
    caller.tenant.is_none() || tenant.is_some_and(|it| sees_tenant(view, caller, it))
}
