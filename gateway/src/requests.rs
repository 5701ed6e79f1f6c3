//! Running requests of authenticated callers: the table, and the end of requests that lost their access.
//!
//! The table holds weak references: a request enters it once its caller is known, and leaves it with its record.

mod recheck;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use fairlead_api::{
    ClusterId, Failure, TenantId,
    resources::{RequestKind, RunningRequest},
};
use time::OffsetDateTime;

use crate::front::record::{RecordInner, RequestRecord};

pub(crate) use recheck::supervise;

/// Parts of the table with a lock each, so that cores seldom wait for each other.
const SHARD_COUNT: usize = 64;
/// Allocator's granularity for records, so that their addresses spread over the shards.
const RECORD_ALIGNMENT: usize = 128;

/// Running requests of authenticated callers at this hub; the sessions of agents excluded.
#[derive(Default)]
pub struct RunningRequests {
    shards: Shards,
}

struct Shards([Mutex<Shard>; SHARD_COUNT]);

/// Records by their address.
type Shard = HashMap<usize, Weak<RecordInner>>;

impl Default for Shards {
    fn default() -> Self {
        Shards(std::array::from_fn(|_| Mutex::default()))
    }
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

impl RunningRequests {
    /// All running requests, in no order.
    #[must_use]
    pub fn list(&self) -> Vec<RunningRequest> {
        let shards = 0..SHARD_COUNT;
        let running = shards.flat_map(|at| self.shard(at));
        running.filter_map(|record| record.snapshot()).collect()
    }

    /// Ends the selected requests; returns their number.
    pub fn end(&self, filter: &RequestFilter, failure: &Failure) -> usize {
        let mut ended = 0;
        for record in (0..SHARD_COUNT).flat_map(|at| self.shard(at)) {
            let selected = record.snapshot().is_some_and(|it| filter.matches(&it));
            if selected && record.end(failure) {
                ended += 1;
            }
        }
        ended
    }

    /// Ends all requests that run on a session.
    pub(crate) fn end_on_session(&self, session: usize, failure: &Failure) {
        for record in (0..SHARD_COUNT).flat_map(|at| self.shard(at)) {
            if record.session() == Some(session) {
                record.end(failure);
            }
        }
    }

    pub(crate) fn insert(&self, address: usize, record: Weak<RecordInner>) {
        self.lock(address / RECORD_ALIGNMENT)
            .insert(address, record);
    }

    pub(crate) fn remove(&self, address: usize) {
        self.lock(address / RECORD_ALIGNMENT).remove(&address);
    }

    /// Requests of one shard. Its lock is free again: the last reference to a record may end here.
    fn shard(&self, at: usize) -> Vec<RequestRecord> {
        let shard = self.lock(at);
        let records = shard.values().filter_map(Weak::upgrade);
        records.map(RequestRecord::from).collect()
    }

    fn lock(&self, at: usize) -> MutexGuard<'_, Shard> {
        let [first, rest @ ..] = &self.shards.0;
        let shard = (at % SHARD_COUNT)
            .checked_sub(1)
            .and_then(|at| rest.get(at));
        shard
            .unwrap_or(first)
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Access of a running request when it began.
#[derive(Clone)]
pub(crate) struct RequestAccess {
    pub(crate) caller: Arc<crate::seam::Caller>,
    /// Permission in the cluster; `None` for the hub's own routes.
    pub(crate) grant: Option<crate::seam::Grant>,
    pub(crate) cluster: Option<ClusterId>,
}
