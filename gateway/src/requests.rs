//! Table of the running requests of authenticated callers.
//!
//! It holds weak references: a request enters it once its caller is known, and leaves it with its record.

pub(crate) mod recheck;
pub(crate) mod reviews;

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasherDefault, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use fairlead_api::{ClusterId, Failure, resources::RunningRequest};
use fairlead_seam::{Caller, Grant, NamedService, RequestFilter, RunningRequests};
use tokio::sync::Notify;

use self::reviews::{ReviewedToken, ReviewedTokens};

/// Parts of the table with a lock each, so that cores seldom wait for each other.
pub(crate) const SHARD_COUNT: usize = 64;
/// Allocator's granularity for records, so that their addresses spread over the shards.
const RECORD_ALIGNMENT: usize = 128;

/// Access of a running request when it began.
#[derive(Clone)]
pub(crate) struct RequestAccess {
    pub(crate) caller: Arc<Caller>,
    /// Permission in the cluster; `None` for the hub's own routes.
    pub(crate) grant: Option<Arc<Grant>>,
    pub(crate) cluster: Option<ClusterId>,
    /// Named service of a connection.
    pub(crate) service: Option<Arc<NamedService>>,
}

/// A request in the table.
pub(crate) trait Running: Send + Sync {
    /// The request as the API shows it; `None` before its caller is known.
    fn snapshot(&self) -> Option<RunningRequest>;

    /// Ends the request with this reason; false if it ends already.
    fn end(&self, failure: &Failure) -> bool;

    /// Address of the entry of the agent's session.
    fn session(&self) -> Option<usize>;

    /// Access of the caller when the request began; `None` before it is known.
    fn access(&self) -> Option<RequestAccess>;

    /// The token, if it has to be reviewed again.
    fn reviewed_token(&self) -> Option<Arc<ReviewedToken>>;

    /// True from the decision to end the request until its last byte.
    fn is_ending(&self) -> bool;

    /// Wakes the task that ends the request.
    fn wake(&self);
}

/// Running requests of authenticated callers at this hub; the sessions of agents excluded.
pub(crate) struct RequestTable<R> {
    shards: [Mutex<Shard<R>>; SHARD_COUNT],
    pub(crate) reviewed: ReviewedTokens,
    /// Notified when requests end outside of a pass, which has to wake them until they are gone.
    ended: Notify,
}

/// Records by their address.
type Shard<R> = HashMap<usize, Weak<R>, BuildHasherDefault<AddressHasher>>;

/// Hash of an address, which no client can choose.
#[derive(Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize((*byte).into());
        }
    }

    fn write_usize(&mut self, address: usize) {
        // Fibonacci hashing: the high bits, which the table uses too, depend on all bits of the address.
        let mixed = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

impl<R> Default for RequestTable<R> {
    fn default() -> Self {
        RequestTable {
            shards: std::array::from_fn(|_| Mutex::default()),
            reviewed: ReviewedTokens::default(),
            ended: Notify::new(),
        }
    }
}

impl<R: Running> RunningRequests for RequestTable<R> {
    fn list(&self) -> Vec<RunningRequest> {
        self.all().filter_map(|record| record.snapshot()).collect()
    }

    fn end(&self, filter: &RequestFilter, failure: &Failure) -> usize {
        let mut ended = 0;
        for record in self.all() {
            let selected = record.snapshot().is_some_and(|it| filter.matches(&it));
            if selected && record.end(failure) {
                ended += 1;
            }
        }
        self.ended.notify_one();
        ended
    }
}

impl<R: Running> RequestTable<R> {
    /// Ends all requests that run on a session.
    pub(crate) fn end_on_session(&self, session: usize, failure: &Failure) {
        for record in self.all() {
            if record.session() == Some(session) {
                record.end(failure);
            }
        }
        self.ended.notify_one();
    }

    /// Ends the requests with these ids; returns their number.
    pub(crate) fn end_ids(&self, ids: &HashSet<String>, failure: &Failure) -> usize {
        let mut ended = 0;
        for record in self.all() {
            let selected = record.snapshot().is_some_and(|it| ids.contains(&it.id));
            if selected && record.end(failure) {
                ended += 1;
            }
        }
        self.ended.notify_one();
        ended
    }

    fn all(&self) -> impl Iterator<Item = Arc<R>> {
        (0..SHARD_COUNT).flat_map(|at| self.shard(at))
    }
}

impl<R> RequestTable<R> {
    pub(crate) fn insert(&self, address: usize, record: Weak<R>) {
        self.lock(address / RECORD_ALIGNMENT)
            .insert(address, record);
    }

    pub(crate) fn remove(&self, address: usize) {
        self.lock(address / RECORD_ALIGNMENT).remove(&address);
    }

    /// Requests of one shard. Its lock is free again: the last reference to a record may end here.
    pub(crate) fn shard(&self, at: usize) -> Vec<Arc<R>> {
        let shard = self.lock(at);
        shard.values().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self, at: usize) -> MutexGuard<'_, Shard<R>> {
        let [first, rest @ ..] = &self.shards;
        let shard = (at % SHARD_COUNT)
            .checked_sub(1)
            .and_then(|at| rest.get(at));
        shard
            .unwrap_or(first)
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
