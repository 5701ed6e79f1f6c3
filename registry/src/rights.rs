//! Permissions of roles, and visibility: all, a tenant with its descendants, or one cluster.
//!
//! Roles add up. [`allow`] holds for everything that the caller sees, so all its roles must have the right; [`allow_in`]
//! picks the role that has it. Visibility is checked first. A hidden resource is answered like a missing one, whatever the
//! role.

use std::sync::Arc;

use fairlead_api::{ClusterId, Selector, TenantId};
use fairlead_routes::{Denied, Right};
use fairlead_seam::{Caller, ClusterScope, GrantKind, GrantScope};
use fairlead_store::{
    Record, View,
    model::{Cluster, Tenant, Token},
};

use crate::{effective_fact::label_of, error::RegistryError, template::template_of};

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

/// Checks a permission on a visible cluster; returns the caller with the one role that has it, and nothing else.
///
/// # Errors
/// `FL-1201`
pub fn allow_in(
    view: &View,
    caller: &Caller,
    cluster: &Cluster,
    right: Right,
) -> Result<Caller, RegistryError> {
    let covering = |it: &Caller| covers(view, scope_of(it), cluster);
    acting(caller.each_role().filter(covering), caller, right)
}

/// Like [`allow_in`], for a visible tenant.
///
/// # Errors
/// `FL-1201`
pub fn allow_in_tenant(
    view: &View,
    caller: &Caller,
    tenant: &TenantId,
    right: Right,
) -> Result<Caller, RegistryError> {
    let covering = |it: &Caller| sees_tenant(view, it, tenant);
    acting(caller.each_role().filter(covering), caller, right)
}

/// Checks a permission on no particular thing; returns the caller with the widest role that has it.
///
/// # Errors
/// `FL-1201`
pub fn allow_somewhere(caller: &Caller, right: Right) -> Result<Caller, RegistryError> {
    acting(caller.each_role(), caller, right)
}

fn acting(
    covering: impl Iterator<Item = Caller>,
    caller: &Caller,
    right: Right,
) -> Result<Caller, RegistryError> {
    let mut refused = None;
    for role in covering {
        match right.check(&role) {
            Ok(()) => return Ok(role),
            Err(denied) => refused = refused.or(Some(denied)),
        }
    }
    match refused {
        Some(Denied { detail, next }) => Err(RegistryError::NotAllowed { detail, next }),
        None => {
            // Nothing covers the thing. The own role alone does not see it, either.
            let own = caller.with_own_role();
            allow(&own, right)?;
            Ok(own)
        }
    }
}

type ScopeRef<'a> = (Option<&'a TenantId>, &'a ClusterScope);

fn scope_of(caller: &Caller) -> ScopeRef<'_> {
    (caller.tenant.as_ref(), &caller.clusters)
}

/// True if a scope contains the cluster.
pub(crate) fn covers(view: &View, (tenant, clusters): ScopeRef<'_>, cluster: &Cluster) -> bool {
    let is_in_tenant = tenant.is_none_or(|tenant| view.within(&cluster.tenant, tenant));
    is_in_tenant
        && match clusters {
            ClusterScope::All => true,
            ClusterScope::One(only) => *only == cluster.id,
            ClusterScope::Selected(selector) => has_labels(view, cluster, selector),
        }
}

/// True if annotations and facts of the cluster match.
#[must_use]
pub fn has_labels(view: &View, cluster: &Cluster, selector: &Selector) -> bool {
    let template = template_of(view, &cluster.tenant);
    selector.matches(|key| label_of(cluster, template, key, |_| true))
}

/// True if the own role of a caller with limited clusters covers the cluster with this id. A deleted cluster has no labels.
pub(crate) fn covers_id(view: &View, caller: &Caller, id: &str) -> bool {
    match &caller.clusters {
        ClusterScope::One(only) => only.as_str() == id,
        ClusterScope::All | ClusterScope::Selected(_) => {
            let cluster = id.parse().ok().and_then(|id| view.cluster(&id));
            cluster.is_some_and(|it| covers(view, scope_of(caller), &it.value))
        }
    }
}

/// True if the scope of a role contains the cluster.
#[must_use]
pub fn covers_cluster(view: &View, scope: &GrantScope, cluster: &Cluster) -> bool {
    covers(view, (scope.tenant.as_ref(), &scope.clusters), cluster)
}

/// Scopes of all lasting roles: the caller knows of everything in them.
fn scopes(caller: &Caller) -> impl Iterator<Item = ScopeRef<'_>> {
    let more = caller.grants.iter();
    let more = more.filter(|it| it.kind == GrantKind::Standing);
    let more = more.map(|it| (it.scope.tenant.as_ref(), &it.scope.clusters));
    std::iter::once(scope_of(caller)).chain(more)
}

/// True if the caller may know of the tenant.
pub fn sees_tenant(view: &View, caller: &Caller, tenant: &TenantId) -> bool {
    scopes(caller)
        .any(|(own, clusters)| clusters.is_all() && own.is_none_or(|own| view.within(tenant, own)))
}

/// True if the caller may know of the cluster.
pub fn sees_cluster(view: &View, caller: &Caller, cluster: &Cluster) -> bool {
    scopes(caller).any(|scope| covers(view, scope, cluster))
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
