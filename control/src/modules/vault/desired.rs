//! Desired access: a function of the cluster's record and the hub's settings.

use fairlead_api::facts::SERVICE_ACCOUNT_KEYS;
use fairlead_store::model::{Cluster, FactSource, VaultNames, hex};
use fairlead_vault::{DesiredAccess, JWT, KeysError, SecretAccess};
use serde_json::Value;

/// Reason without a desired access.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoAccess {
    #[error("the agent has not reported the keys of its service accounts yet")]
    NoKeys,
    #[error(transparent)]
    Keys(#[from] KeysError),
}

/// Desired access, and its hash.
#[derive(Debug, Clone)]
pub(super) struct PlannedAccess {
    pub(super) desired: DesiredAccess,
    pub(super) of: String,
}

pub(super) fn names(access: &dyn SecretAccess, cluster: &Cluster) -> VaultNames {
    access.names(&cluster.tenant, &cluster.id)
}

/// Only the cluster's own agent reports keys: everybody else could let strangers log in.
///
/// # Errors
/// [`NoAccess`]
pub(super) fn planned_access(
    access: &dyn SecretAccess,
    cluster: &Cluster,
) -> Result<PlannedAccess, NoAccess> {
    let fact = cluster.dynamic_facts.get(SERVICE_ACCOUNT_KEYS);
    let fact = fact.filter(|it| it.source == FactSource::Agent);
    let needs_keys = access.method(&cluster.tenant, &cluster.id) == JWT;
    let keys = match fact {
        Some(fact) => &fact.value,
        None if needs_keys => return Err(NoAccess::NoKeys),
        None => &Value::Null,
    };
    let desired = access.desired(&cluster.tenant, &cluster.id, keys)?;
    let of = hex::hash_of(&desired);
    Ok(PlannedAccess { desired, of })
}
