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

/// Operations on visible resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Read tenants, clusters and their details.
    Read,
    /// Change a tenant.
    WriteTenant,
    /// Create and delete tenants, change a tenant's parent, move a cluster between tenants.
    ManageTenants,
    /// Register, change, delete clusters.
    WriteCluster,
    /// Report facts and the deploy key of a cluster, as its own agent.
    Report,
    /// Store an inventory of a cluster.
    Inventory,
    /// Read and create bootstrap tokens.
    Invite,
    /// Store compile metadata.
    Compile,
    /// Read the catalog of a cluster: Kubernetes objects for its agent.
    ReadCatalog,
    /// Change the catalog of a cluster.
    WriteCatalog,
    /// Manage API tokens.
    Tokens,
    /// Read the audit log with values before and after each change.
    Audit,
}

/// Checks a permission.
///
/// # Errors
/// `FL-1201`
pub fn allow(caller: &Caller, right: Right) -> Result<(), RegistryError> {
    use Right::{
        Compile, Inventory, Invite, ManageTenants, Read, ReadCatalog, Report, WriteCluster,
        WriteTenant,
    };
    let allowed = match caller.role {
        Role::Admin => right != Report && (right != ManageTenants || caller.tenant.is_none()),
        Role::Operator => matches!(right, Read | ReadCatalog | Inventory),
        Role::Viewer => right == Read,
        Role::Tenant => matches!(
            right,
            Read | WriteTenant | WriteCluster | Inventory | Invite | Compile | ReadCatalog
        ),
        Role::Cluster => matches!(right, Read | Report | Inventory),
        Role::Compile => matches!(right, Read | Compile),
    };
    if allowed {
        return Ok(());
    }
    let (what, needed) = needs(right);
    let on = match (&caller.cluster, &caller.tenant) {
        (Some(cluster), _) => cluster.to_string(),
        (None, Some(tenant)) => tenant.to_string(),
        (None, None) => "all tenants".to_owned(),
    };
    let detail = format!(
        "{:?} has the role {} on {on}; {what} needs {needed}",
        caller.name, caller.role
    );
    let next = format!("Use a token with {needed}; `fairlead whoami` shows yours.");
    Err(RegistryError::NotAllowed { detail, next })
}

/// The operation and the roles that allow it.
const fn needs(right: Right) -> (&'static str, &'static str) {
    match right {
        Right::Read => ("reading", "any role"),
        Right::WriteTenant => ("changing a tenant", "the role admin or tenant"),
        Right::ManageTenants => (
            "creating or deleting a tenant, or moving something between tenants,",
            "the role admin on all tenants",
        ),
        Right::WriteCluster => (
            "registering, changing or deleting a cluster",
            "the role admin or tenant",
        ),
        Right::Report => (
            "reporting for a cluster",
            "the role cluster, on that cluster",
        ),
        Right::Inventory => (
            "storing an inventory",
            "the role admin, operator, tenant or cluster",
        ),
        Right::Invite => ("a bootstrap token", "the role admin or tenant"),
        Right::Compile => (
            "storing compile metadata",
            "the role admin, tenant or compile",
        ),
        Right::ReadCatalog => (
            "reading a catalog, which may hold Secrets,",
            "the role admin, operator or tenant",
        ),
        Right::WriteCatalog => ("changing a catalog", "the role admin"),
        Right::Tokens => ("work on API tokens", "the role admin"),
        Right::Audit => ("reading the audit", "the role admin"),
    }
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
