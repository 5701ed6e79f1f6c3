//! State of a request while it runs.

use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{AtomicBool, AtomicU64},
};

use fairlead_api::{ClusterId, Failure, resources::RequestKind};
use futures_util::task::AtomicWaker;
use tokio::time::Instant;

use crate::requests::{RequestAccess, reviews::ReviewedToken};

/// State of a request while it runs.
pub(super) struct RunningState {
    pub(super) kind: RequestKind,
    pub(super) bytes_in: AtomicU64,
    pub(super) bytes_out: AtomicU64,
    pub(super) known: Mutex<KnownFields>,
    pub(super) ending: OnceLock<Ending>,
    /// The answer is the reason of the end.
    pub(super) is_end_reported: AtomicBool,
    /// The task that answers the request, or copies its answer.
    pub(super) waker: AtomicWaker,
}

#[derive(Default)]
pub(super) struct KnownFields {
    pub(super) access: Option<RequestAccess>,
    pub(super) cluster: Option<ClusterId>,
    /// Token that only its reviewer understands.
    pub(super) reviewed: Option<Arc<ReviewedToken>>,
    /// Address of the entry of the agent's session.
    pub(super) session: Option<usize>,
}

/// End of a running request by the hub.
pub(crate) struct Ending {
    pub(crate) failure: Failure,
    pub(crate) since: Instant,
}

impl RunningState {
    pub(super) fn new(kind: RequestKind) -> Self {
        RunningState {
            kind,
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            known: Mutex::default(),
            ending: OnceLock::new(),
            is_end_reported: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, KnownFields> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the request is in the table.
    pub(super) fn is_entered(&self) -> bool {
        self.known().access.is_some()
    }
}
