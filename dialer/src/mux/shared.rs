//! The lock around the state of all streams of a session.

use std::sync::{Arc, Mutex};

use super::{side::Side, state::MuxState};
use crate::{limits::Limits, sync::lock};

/// Streams of one session. The driver's calls collect wakers in `wakes`; the driver wakes them
/// without holding the lock.
pub struct Mux {
    pub(super) state: Mutex<MuxState>,
}

impl Mux {
    /// `peer_streams` is the stream limit of the peer.
    #[must_use]
    pub fn new(side: Side, limits: &Limits, peer_streams: usize) -> Arc<Self> {
        Arc::new(Mux {
            state: Mutex::new(MuxState::new(side, limits, peer_streams)),
        })
    }

    /// Runs `act` for callers other than the driver, and wakes the driver if it has work.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut MuxState) -> T) -> T {
        let mut state = lock(&self.state);
        let outcome = act(&mut state);
        let driver = match std::mem::take(&mut state.wake_driver) {
            // Only once: it registers again on its next round.
            true => state.driver.take(),
            false => None,
        };
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        outcome
    }
}
