//! A paused clock for tests that wait for sockets.

use std::{sync::mpsc, time::Duration};

use tokio::{
    task::spawn_blocking,
    time::{Instant, advance, pause, resume},
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

/// Advances a paused clock in small steps, until the condition holds or the time is over; returns the time that has passed. After
/// each step bytes in flight have real time to arrive.
///
/// # Panics
/// The thread for that real time ends.
pub async fn pass(time: Duration, is_so: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() && begun.elapsed() < time {
        let moment = || {
            let (_held, gone) = mpsc::channel::<()>();
            gone.recv_timeout(Duration::from_millis(1))
        };
        let _ = spawn_blocking(moment).await.unwrap();
        advance(Duration::from_millis(200)).await;
    }
    begun.elapsed()
}

/// As [`pass`], until the condition holds.
///
/// # Panics
/// It does not hold within a minute.
pub async fn pass_until(is_so: impl Fn() -> bool) {
    pass(Duration::from_secs(60), &is_so).await;
    assert!(is_so(), "it never is");
}
