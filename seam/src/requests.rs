//! Running requests of authenticated callers, for modules.

use fairlead_api::{
    ClusterId, Failure, TenantId,
    resources::{RequestKind, RunningRequest},
};
use time::OffsetDateTime;

/// The running requests of a hub at this moment, from memory.
pub trait RunningRequests: Send + Sync {
    /// All running requests of authenticated callers, in no order; the sessions of agents excluded.
    fn list(&self) -> Vec<RunningRequest>;

    /// Ends the selected requests; returns their number.
    fn end(&self, filter: &RequestFilter, failure: &Failure) -> usize;
}

/// Order to end running requests, given by an admin.
#[derive(Debug, Clone)]
pub struct Termination {
    /// The requests to end.
    pub filter: RequestFilter,
    /// Requests that began later are not concerned.
    pub started_before: OffsetDateTime,
    /// Reason for the clients.
    pub failure: Failure,
}

/// Selects running requests; an empty field selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestFilter {
    /// Id of the request.
    pub id: Option<String>,
    /// Id of a request that is not selected.
    pub except: Option<String>,
    /// Name of the caller.
    pub caller: Option<String>,
    /// Id of the API token.
    pub token: Option<String>,
    /// Tenants of the request: one with all below it.
    pub tenants: Option<Vec<TenantId>>,
    /// Cluster of the request.
    pub cluster: Option<ClusterId>,
    /// Kind of the request.
    pub kind: Option<RequestKind>,
}

impl RequestFilter {
    /// True if the filter selects the request.
    #[must_use]
    pub fn matches(&self, request: &RunningRequest) -> bool {
        fn is<T: PartialEq>(wanted: Option<&T>, value: Option<&T>) -> bool {
            wanted.is_none_or(|wanted| value == Some(wanted))
        }
        is(self.id.as_ref(), Some(&request.id))
            && self.except.as_ref() != Some(&request.id)
            && is(self.caller.as_ref(), Some(&request.caller))
            && is(self.token.as_ref(), request.token.as_ref())
            && is(self.cluster.as_ref(), request.cluster.as_ref())
            && is(self.kind.as_ref(), Some(&request.kind))
            && self.tenants.as_ref().is_none_or(|tenants| {
                let tenant = request.tenant.as_ref();
                tenant.is_some_and(|tenant| tenants.contains(tenant))
            })
    }
}
