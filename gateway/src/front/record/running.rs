//! State of a request while it runs.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicU64},
};

use fairlead_api::{Failure, resources::RequestKind};
use futures_util::task::AtomicWaker;
use tokio::time::Instant;

/// State of a request while it runs.
pub(super) struct RunningState {
    pub(super) kind: RequestKind,
    pub(super) bytes_in: AtomicU64,
    pub(super) bytes_out: AtomicU64,
    pub(super) ending: OnceLock<Ending>,
    /// The answer is the reason of the end.
    pub(super) is_end_reported: AtomicBool,
    /// The task that answers the request, or copies its answer.
    pub(super) waker: AtomicWaker,
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
            ending: OnceLock::new(),
            is_end_reported: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        }
    }
}
