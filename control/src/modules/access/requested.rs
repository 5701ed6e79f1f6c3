//! New requests for roles.

use std::time::Duration;

use fairlead_api::{
    resources::{CreateAccessRequest, Role},
    site::OperatorNamespace,
};
use fairlead_registry::{RegistryError, checked_reason, holder_of, visible};
use fairlead_routes::{InvalidValue, invalid};
use fairlead_seam::Caller;
use fairlead_store::{
    Draft,
    model::{AccessGrant, hex},
    random,
};

use super::parts::AccessParts;

/// Shortest time of a role.
const MIN_SECONDS: u64 = 60;
/// Each namespace is a header of each request.
const MAX_NAMESPACES: usize = 16;

/// A request for a role, checked.
pub(super) struct RequestedRole {
    pub(super) role: Role,
    pub(super) namespaces: Vec<OperatorNamespace>,
    pub(super) seconds: u64,
    pub(super) reason: String,
}

impl RequestedRole {
    pub(super) fn of(
        asked: &CreateAccessRequest,
        role: Role,
        max: Duration,
    ) -> Result<Self, InvalidValue> {
        if !role.is_temporary() {
            return Err(invalid("role: expected admin, operator, viewer or tcp"));
        }
        if asked.namespaces.len() > MAX_NAMESPACES {
            return Err(invalid(format_args!(
                "namespaces: {MAX_NAMESPACES} at most"
            )));
        }
        if matches!(role, Role::Admin | Role::Tcp) && !asked.namespaces.is_empty() {
            return Err(invalid(
                "namespaces: for the roles operator and viewer only",
            ));
        }
        let names = asked.namespaces.iter().map(|it| it.parse());
        let namespaces = names.collect::<Result<Vec<_>, _>>();
        let namespaces =
            namespaces.map_err(|error| invalid(format_args!("namespaces: {error}")))?;
        let max = max.as_secs();
        let seconds = asked.duration_seconds.unwrap_or(max);
        if !(MIN_SECONDS.min(max)..=max).contains(&seconds) {
            let cause = format_args!("durationSeconds: expected {MIN_SECONDS} to {max}");
            return Err(invalid(cause));
        }
        Ok(RequestedRole {
            role,
            namespaces,
            seconds,
            reason: checked_reason(&asked.reason)?.to_owned(),
        })
    }

    pub(super) fn request(
        self,
        parts: &AccessParts,
        caller: &Caller,
        asked: &CreateAccessRequest,
    ) -> Result<AccessGrant, RegistryError> {
        let view = parts.store.view();
        let cluster = visible(&view, caller, asked.cluster.as_str())?;
        let suffix: [u8; 8] = random::bytes()?;
        Ok(AccessGrant {
            id: format!("ar-{}", hex::encode(&suffix)),
            holder: holder_of(caller),
            cluster: cluster.value.id.clone(),
            tenant: cluster.value.tenant.clone(),
            registration: cluster.value.binding.registration,
            role: self.role,
            namespaces: self.namespaces,
            seconds: self.seconds,
            reason: self.reason,
            is_emergency: false,
            created: parts.now(),
            approved: None,
            denied: None,
            revoked: None,
            reviewed: None,
        })
    }
}

/// Stores a new request, bound to the cluster as it is now.
pub(super) fn put(
    draft: &mut Draft,
    caller: &Caller,
    mut access: AccessGrant,
) -> Result<AccessGrant, RegistryError> {
    let cluster = visible(draft, caller, access.cluster.as_str())?;
    access.tenant = cluster.value.tenant.clone();
    access.registration = cluster.value.binding.registration;
    draft.put_access(access.clone());
    Ok(access)
}
