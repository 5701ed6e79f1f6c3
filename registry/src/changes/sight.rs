//! What a line of the log is to whoever reads it. Seeing goes by who could see the thing when it changed, before or after:
//! what goes out of somebody's sight was deleted to them, what comes into it was created, whatever it is to others. So
//! whoever keeps what they see and follows the log keeps nothing that they do not see any more.

use fairlead_api::TenantId;
use fairlead_gateway::Caller;
use fairlead_store::{Change, Kind, Operation, View};

use crate::rights::{Right, allow, sees_tenant};

/// What became of the thing as the caller sees it; nothing where that is nothing to them. Tokens are for those who look after
/// them.
pub(crate) fn seen_as(view: &View, caller: &Caller, change: &Change) -> Option<Operation> {
    if let Some(own) = &caller.cluster {
        let is_own = is_of_cluster(change.kind) && change.id == own.as_str();
        return is_own.then_some(change.operation);
    }
    if change.kind == Kind::Token && allow(caller, Right::Tokens).is_err() {
        return None;
    }
    let Some(own) = &caller.tenant else {
        return Some(change.operation);
    };
    let Some(audience) = &change.audience else {
        return sees_today(view, caller, own, change).then_some(change.operation);
    };
    match (audience.saw(own), audience.sees(own)) {
        (true, true) => Some(change.operation),
        (false, true) => Some(Operation::Created),
        (true, false) => Some(Operation::Deleted),
        (false, false) => None,
    }
}

/// The line as the caller sees it: of what was out of their sight, before or after, it says nothing.
pub(super) fn seen(view: &View, caller: &Caller, mut change: Change) -> Option<Change> {
    let operation = seen_as(view, caller, &change)?;
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

/// Whether a line is of a thing of this tenant or of one below it, before or after the change. A caller on one tenant learns
/// nothing of those above: none of them is found in any line.
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

/// Of a line that does not say who could see it: by whose the thing was, and who is above that now.
fn sees_today(view: &View, caller: &Caller, own: &TenantId, change: &Change) -> bool {
    let whose = match change.kind {
        // Of one on a single cluster such a line does not say whose that is.
        Kind::Token | Kind::Cluster | Kind::Catalog => change.tenant.clone(),
        Kind::Tenant => change.id.parse().ok(),
    };
    whose.is_some_and(|it| it == *own || sees_tenant(view, caller, &it))
}
