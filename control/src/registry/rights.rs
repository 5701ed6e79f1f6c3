//! Who may do what. An admin on all tenants may do everything; an admin of a tenant has its clusters and tokens;
//! operators and viewers read the clusters of their tenant, or of all.

use fairlead_api::{Code, Failure, TenantId, resources::Role};
use fairlead_gateway::Caller;

/// What a caller sees: one tenant, or all (`None`).
pub(crate) fn scope(caller: &Caller) -> Option<&TenantId> {
    caller.tenant.as_ref()
}

/// # Errors
/// `FL-1201` below `role`.
pub(crate) fn at_least(caller: &Caller, role: Role) -> Result<(), Failure> {
    if caller.role >= role {
        return Ok(());
    }
    let detail = format!(
        "it takes an {role}, and {:?} is {}",
        caller.name, caller.role
    );
    Err(Failure::because(Code::NotAllowed, detail))
}

/// # Errors
/// `FL-1201` for everybody but an admin on all tenants.
pub(crate) fn admin_of_all(caller: &Caller) -> Result<(), Failure> {
    at_least(caller, Role::Admin)?;
    match scope(caller) {
        None => Ok(()),
        Some(_) => Err(Failure::because(
            Code::NotAllowed,
            "it takes an admin on all tenants",
        )),
    }
}

/// Whether a caller may be shown what lets an agent enrol.
pub(crate) fn may_invite(caller: &Caller) -> bool {
    caller.role >= Role::Admin
}
