//! Progress of a request, for limits and deadlines.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Progress of a request, for limits and deadlines.
#[derive(Default)]
pub(crate) struct RequestFlow {
    pub(super) known: AtomicBool,
    /// Number of turns between the answer's body and its client; odd while the client has the turn.
    turns: AtomicU32,
    broken: AtomicBool,
}

impl RequestFlow {
    /// True once the caller is authenticated.
    pub(crate) fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// The request was upgraded, and its stream of an HTTP/2 connection ends with a reset.
    pub(crate) fn break_off(&self) {
        self.broken.store(true, Ordering::Release);
    }

    /// True if the stream is to be reset.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// The client has to take bytes of the answer next.
    pub(crate) fn block(&self) {
        let turns = self.turns.load(Ordering::Relaxed);
        let next = turns.wrapping_add(1 + (turns & 1));
        self.turns.store(next, Ordering::Relaxed);
    }

    /// The answer's body has to yield bytes next.
    pub(crate) fn unblock(&self) {
        let turns = self.turns.load(Ordering::Relaxed);
        self.turns
            .store(turns.wrapping_add(turns & 1), Ordering::Relaxed);
    }

    /// Number of the turn if the client has it.
    pub(crate) fn blocked(&self) -> Option<u32> {
        let turns = self.turns.load(Ordering::Relaxed);
        (turns & 1 == 1).then_some(turns)
    }
}
