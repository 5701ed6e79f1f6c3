//! Moves of clusters between tenants.

use fairlead_api::TenantId;
use fairlead_routes::Right;
use fairlead_seam::Caller;
use fairlead_store::{
    Draft,
    model::{Binding, Cluster},
};
use tracing::info;

use crate::{
    error::RegistryError,
    rights::{allow, sees_tenant},
};

/// Moves a cluster to another tenant. Its identity, bootstrap token and API tokens become void,
/// because they are in the hands of the previous tenant's people.
pub(crate) fn move_to(
    draft: &Draft,
    principal: &Caller,
    cluster: &mut Cluster,
    tenant: TenantId,
    fresh: Binding,
) -> Result<(), RegistryError> {
    let known = draft.tenant(&tenant).is_some() && sees_tenant(draft, principal, &tenant);
    if !known {
        return Err(RegistryError::UnknownTenant);
    }
    allow(principal, Right::MANAGE_TENANTS)?;
    let generation = cluster.binding.bootstrap.generation;
    cluster.tenant = tenant;
    cluster.binding = fresh;
    cluster.binding.bootstrap.generation = generation.saturating_add(1);
    Ok(())
}

pub(crate) fn log_move(caller: &Caller, cluster: &Cluster) {
    info!(cluster = %cluster.id, tenant = %cluster.tenant, caller = caller.name, "cluster moved to another tenant");
}
