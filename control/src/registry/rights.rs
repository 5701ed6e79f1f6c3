//! Who may do what, and what a caller sees: all, a tenant with all below it, or one cluster. Seeing comes first: what a
//! caller does not see is answered as what is not there, whatever they may do.

use std::sync::Arc;

use fairlead_api::{ClusterId, Code, Failure, TenantId, resources::Role};
use fairlead_gateway::Caller;

use crate::{
    model::{Cluster, Tenant},
    store::{Record, View},
};

/// What there is to be allowed, on what one sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
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
pub(crate) fn allow(caller: &Caller, right: Right) -> Result<(), Failure> {
    use Right::{
        Audit, Compile, Inventory, Invite, ManageTenants, Read, ReadCatalog, Report, Tokens,
        WriteCatalog, WriteCluster, WriteTenant,
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
    let what = match right {
        Read => "reading it",
        WriteTenant => "changing a tenant",
        ManageTenants => {
            "making, deleting and moving tenants' things, which takes an admin on all tenants"
        }
        WriteCluster => "registering, changing and deleting clusters",
        Report => "reporting for a cluster, which takes its own token",
        Inventory => "storing what was found in a cluster",
        Invite => "letting agents enrol",
        Compile => "writing down what was compiled",
        ReadCatalog => "reading a catalog, which may hold Secrets",
        WriteCatalog => "changing a catalog",
        Tokens => "looking after tokens",
        Audit => "reading who has changed what",
    };
    let detail = format!(
        "{:?} is {}, and that is not for {what}",
        caller.name, caller.role
    );
    Err(Failure::because(Code::NotAllowed, detail))
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
pub(crate) fn sees_cluster(view: &View, caller: &Caller, cluster: &Cluster) -> bool {
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
pub(crate) fn visible(
    view: &View,
    caller: &Caller,
    id: &str,
) -> Result<Arc<Record<Cluster>>, Failure> {
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
