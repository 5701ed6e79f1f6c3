//! A paused clock for tests that wait for sockets.

use std::sync::mpsc;

use tokio::{
    task::spawn_blocking,
    time::{pause, resume},
};

pub use crate::wait::TEST_DEADLINE;

/// Pauses Tokio's clock until it is dropped, for [`TEST_DEADLINE`] at most.
///
/// Without it a paused clock jumps to the next timer as soon as only sockets are left to wait for.
pub struct PausedClock(
    #[expect(dead_code, reason = "dropping it ends the pause")] mpsc::Sender<()>,
);

impl PausedClock {
    /// Pauses the clock of the current runtime, which must be single-threaded.
    #[must_use]
    pub fn start() -> Self {
        pause();
        let (guard, dropped) = mpsc::channel::<()>();
        // A blocking task keeps the runtime from advancing the clock by itself.
        spawn_blocking(move || dropped.recv_timeout(TEST_DEADLINE));
        PausedClock(guard)
    }
}

impl Drop for PausedClock {
    fn drop(&mut self) {
        resume();
    }
}
