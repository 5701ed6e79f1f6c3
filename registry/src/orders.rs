//! Orders of admins to end running requests: documents of the store that each hub follows.

use fairlead_api::{Code, Failure, TenantId};
use fairlead_seam::RequestFilter;
use fairlead_store::{
    View,
    model::{AccessLock, SelectedRequests},
};

/// The filter of an order, with the tenants of now.
#[must_use]
pub fn order_filter(view: &View, selected: &SelectedRequests) -> RequestFilter {
    let limits = [&selected.tenant, &selected.within];
    let limits: Vec<&TenantId> = limits.into_iter().flatten().collect();
    let tenants = (!limits.is_empty()).then(|| {
        let all = view.tenants().map(|it| &it.value.id);
        let inside = all.filter(|id| limits.iter().all(|above| view.within(id, above)));
        inside.cloned().collect()
    });
    RequestFilter {
        id: selected.id.clone(),
        except: selected.except.clone(),
        caller: selected.caller.clone(),
        token: selected.token.clone(),
        tenants,
        cluster: selected.cluster.clone(),
        kind: selected.kind,
    }
}

/// Reason of an order for the clients.
#[must_use]
pub fn order_failure(order: &AccessLock) -> Failure {
    Failure::because(
        Code::RequestEnded,
        format_args!("{}: {}", order.created_by, order.reason),
    )
}
