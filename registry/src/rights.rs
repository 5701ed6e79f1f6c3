//! Who may do what, and what a caller sees: all, a tenant with all below it, or one cluster. Seeing comes first: what a
//! caller does not see is answered as what is not there, whatever they may do.

use std::sync::Arc;

use fairlead_api::{ClusterId, Code, Failure, TenantId, resources::Role};
use fairlead_gateway::Caller;
use fairlead_store::{
    Record, View,
    model::{Cluster, Tenant},
};

/// What there is to be allowed, on what one sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Tenants, clusters and what is known of them.
    Read,
    /// Change a tenant.
    WriteTenant,
    /// Make and delete tenants, change what is above one, move a cluster from one to another.
    ManageTenants,
    /// Register, change, delete clusters.
    WriteCluster,
    /// Facts and deploy key of a cluster, by its own agent.
    Report,
    /// Store what was found in a cluster.
    Inventory,
    /// See and make what lets an agent enrol.
    Invite,
    /// Write down what was compiled.
    Compile,
    ReadCatalog,
    WriteCatalog,
    /// API tokens.
    Tokens,
    /// Who has changed what, with the values before and after.
    Audit,
}

/// # Errors
/// `FL-1201`
pub fn allow(caller: &Caller, right: Right) -> Result<(), Failure> {
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
    Err(Failure::because(Code::NotAllowed, detail).next(next))
}

/// The work, and the roles that may do it.
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

/// Whether a caller may know of a tenant.
pub(crate) fn sees_tenant(view: &View, caller: &Caller, tenant: &TenantId) -> bool {
    match (&caller.cluster, &caller.tenant) {
        (Some(_), _) => false,
        (None, None) => true,
        (None, Some(own)) => view.within(tenant, own),
    }
}

/// Whether a caller may know of a cluster.
pub fn sees_cluster(view: &View, caller: &Caller, cluster: &Cluster) -> bool {
    match &caller.cluster {
        Some(own) => *own == cluster.id,
        None => match &caller.tenant {
            None => true,
            Some(own) => view.within(&cluster.tenant, own),
        },
    }
}

/// The cluster, if there is one and this caller may know of it: both take one and the same look-up.
///
/// # Errors
/// `FL-1301`
pub fn visible(view: &View, caller: &Caller, id: &str) -> Result<Arc<Record<Cluster>>, Failure> {
    let id: ClusterId = id.parse().map_err(|_| Code::NoSuchCluster)?;
    let cluster = view.cluster(&id);
    let cluster = cluster.filter(|it| sees_cluster(view, caller, &it.value));
    Ok(cluster.cloned().ok_or(Code::NoSuchCluster)?)
}

/// The same of a tenant.
///
/// # Errors
/// `FL-4107`
pub(crate) fn visible_tenant(
    view: &View,
    caller: &Caller,
    id: &str,
) -> Result<Arc<Record<Tenant>>, Failure> {
    let id: TenantId = id.parse().map_err(|_| Code::NotFound)?;
    let tenant = view.tenant(&id);
    let tenant = tenant.filter(|_| sees_tenant(view, caller, &id));
    Ok(tenant.cloned().ok_or(Code::NotFound)?)
}
