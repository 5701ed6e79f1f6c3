//! Permissions of roles, and visibility: all, a tenant with its descendants, or one cluster.
//!
//! Visibility is checked first. A hidden resource is answered like a missing one, whatever the
//! role.

use std::sync::Arc;

use fairlead_api::{ClusterId, TenantId, resources::Role};
use fairlead_gateway::Caller;
use fairlead_store::{
    Record, View,
    model::{Cluster, Tenant},
};

use crate::error::RegistryError;

/// Permission for an operation on visible resources. A module declares its own rights as constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    /// Subject of "... needs the role admin".
    operation: &'static str,
    roles: &'static [Role],
    /// The caller must not be limited to a tenant.
    on_all_tenants: bool,
}

impl Right {
    /// Read tenants, clusters and their details.
    pub const READ: Right = Right::new("reading", &Role::ALL);
    /// Change a tenant.
    pub(crate) const WRITE_TENANT: Right =
        Right::new("changing a tenant", &[Role::Admin, Role::Tenant]);
    /// Create and delete tenants, change a tenant's parent, move a cluster between tenants.
    pub(crate) const MANAGE_TENANTS: Right = Right {
        operation: "creating or deleting a tenant, or moving something between tenants,",
        roles: &[Role::Admin],
        on_all_tenants: true,
    };
    /// Register, change, delete clusters.
    pub const WRITE_CLUSTER: Right = Right::new(
        "registering, changing or deleting a cluster",
        &[Role::Admin, Role::Tenant],
    );
    /// Report facts and the deploy key of a cluster, as its own agent.
    pub(crate) const REPORT: Right = Right::new("reporting for a cluster", &[Role::Cluster]);
    /// Read and create bootstrap tokens.
    pub(crate) const INVITE: Right = Right::new("a bootstrap token", &[Role::Admin, Role::Tenant]);
    /// Manage API tokens.
    pub(crate) const TOKENS: Right = Right::new("work on API tokens", &[Role::Admin]);

    /// A right of these roles. `operation` is the subject of the sentence "... needs the role admin".
    #[must_use]
    pub const fn new(operation: &'static str, roles: &'static [Role]) -> Self {
        Right {
            operation,
            roles,
            on_all_tenants: false,
        }
    }

    /// True if the caller has the right on the resources visible to it.
    #[must_use]
    pub fn allows(&self, caller: &Caller) -> bool {
        self.roles.contains(&caller.role) && !(self.on_all_tenants && caller.tenant.is_some())
    }

    /// The roles with this right, in words.
    fn needed(&self) -> String {
        let names: Vec<_> = self.roles.iter().map(|role| role.as_str()).collect();
        let scope = if self.on_all_tenants {
            " on all tenants"
        } else {
            ""
        };
        match names.as_slice() {
            all if all.len() == Role::ALL.len() => "any role".to_owned(),
            ["cluster"] => "the role cluster, on that cluster".to_owned(),
            [first @ .., last] if !first.is_empty() => {
                format!("the role {} or {last}{scope}", first.join(", "))
            }
            one => format!("the role {}{scope}", one.concat()),
        }
    }
}

/// Checks a permission.
///
/// # Errors
/// `FL-1201`
pub fn allow(caller: &Caller, right: Right) -> Result<(), RegistryError> {
    if right.allows(caller) {
        return Ok(());
    }
    let (operation, needed) = (right.operation, right.needed());
    let on = match (&caller.cluster, &caller.tenant) {
        (Some(cluster), _) => cluster.to_string(),
        (None, Some(tenant)) => tenant.to_string(),
        (None, None) => "all tenants".to_owned(),
    };
    let detail = format!(
        "{:?} has the role {} on {on}; {operation} needs {needed}",
        caller.name, caller.role
    );
    let next = format!("Use a token with {needed}; `fairlead whoami` shows yours.");
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
