//! Visibility of log lines. It is decided by the audience at the time of the change, before and
//! after.
//!
//! A resource that leaves the caller's visibility appears as deleted, one that enters it as
//! created. So a client that lists and follows the log keeps exactly the visible resources.

use fairlead_api::TenantId;
use fairlead_routes::Right;
use fairlead_seam::Caller;
use fairlead_store::{Change, Kind, Operation, View};

use crate::rights::{covers_id, sees_tenant};

/// Operation as seen by the caller; `None` if the line is hidden. Tokens are visible to their
/// managers only.
pub(crate) fn visible_operation(
    view: &View,
    caller: &Caller,
    change: &Change,
) -> Option<Operation> {
    if caller.grants.is_empty() {
        return operation_of_role(view, caller, change);
    }
    let mut roles = caller.each_role();
    let first = roles.find_map(|role| operation_of_role(view, &role, change))?;
    // A resource that moves between two roles stays visible.
    let all_agree = roles
        .filter_map(|role| operation_of_role(view, &role, change))
        .all(|it| it == first);
    Some(if all_agree { first } else { change.operation })
}

fn operation_of_role(view: &View, caller: &Caller, change: &Change) -> Option<Operation> {
    if !caller.clusters.is_all() {
        let is_own = is_of_cluster(change.kind) && covers_id(view, caller, &change.id);
        return is_own.then_some(change.operation);
    }
    if matches!(
        change.kind,
        Kind::Token
            | Kind::Lock
            | Kind::Person
            | Kind::Access
            | Kind::Repository
            | Kind::HostKeys
            | Kind::Credential
            | Kind::Adoption
            | Kind::Vault
            | Kind::Upgrade
            | Kind::Service
    ) && !Right::TOKENS.allows(caller)
    {
        return None;
    }
    let Some(own) = &caller.tenant else {
        return Some(change.operation);
    };
    let Some(audience) = &change.audience else {
        return is_visible_today(view, caller, own, change).then_some(change.operation);
    };
    match (audience.saw(own), audience.sees(own)) {
        (true, true) => Some(change.operation),
        (false, true) => Some(Operation::Created),
        (true, false) => Some(Operation::Deleted),
        (false, false) => None,
    }
}

/// The line as seen by the caller, without values from outside its visibility.
pub(super) fn visible_change(view: &View, caller: &Caller, mut change: Change) -> Option<Change> {
    let operation = visible_operation(view, caller, &change)?;
    if operation == change.operation {
        return Some(change);
    }
    match operation {
        Operation::Created => change.before = None,
        Operation::Deleted => {
            change.after = None;
            let was = change.audience.as_ref().and_then(|it| it.before.first());
            if is_of_cluster(change.kind) {
                change.tenant = was.cloned();
            }
        }
        Operation::Updated => {}
    }
    change.operation = operation;
    Some(change)
}

/// True if the line's resource belongs to this tenant or a descendant, before or after the change.
/// Tenants above the caller's never match.
pub(super) fn is_below(caller: &Caller, line: &Change, above: &TenantId) -> bool {
    let Some(audience) = &line.audience else {
        let of_tenant = line.kind == Kind::Tenant && line.id == above.as_str();
        return of_tenant || line.tenant.as_ref() == Some(above);
    };
    let is_in = |lineage: &[TenantId]| {
        let at = |tenant: &TenantId| lineage.iter().position(|it| it == tenant);
        match &caller.tenant {
            None => at(above).is_some(),
            Some(own) => at(above).is_some_and(|above| Some(above) <= at(own)),
        }
    };
    is_in(&audience.before) || is_in(&audience.after)
}

const fn is_of_cluster(kind: Kind) -> bool {
    matches!(kind, Kind::Cluster | Kind::Catalog)
}

/// For a line without an audience: uses the resource's tenant and its current ancestors.
fn is_visible_today(view: &View, caller: &Caller, own: &TenantId, change: &Change) -> bool {
    let whose = match change.kind {
        // Such a line does not name the tenant of a token limited to one cluster.
        Kind::Token
        | Kind::Cluster
        | Kind::Catalog
        | Kind::Lock
        | Kind::Access
        | Kind::Credential
        | Kind::Source
        | Kind::Bundle
        | Kind::Group => change.tenant.clone(),
        Kind::Tenant => change.id.parse().ok(),
        Kind::Authority
        | Kind::Person
        | Kind::Repository
        | Kind::HostKeys
        | Kind::Adoption
        | Kind::Vault
        | Kind::Upgrade
        | Kind::Service => None,
    };
    whose.is_some_and(|it| it == *own || sees_tenant(view, caller, &it))
}
