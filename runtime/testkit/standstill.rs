//! Clocks that stand still, for the tests of those who stand on this room: each names this file as a module of its own.

use std::{sync::mpsc, time::Duration};

use tokio::{
    task::spawn_blocking,
    time::{pause, resume},
};

/// Fails a test that waits for what does not come; no test waits for it to pass.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The clock stands still as long as this is held, and for [`PATIENCE`] at most: what waits for it is late then, and not awaited
/// for ever.
pub(crate) struct Standstill(#[expect(dead_code, reason = "it is held")] mpsc::Sender<()>);

impl Standstill {
    pub(crate) fn begin() -> Self {
        pause();
        let (held, dropped) = mpsc::channel::<()>();
        // A paused clock jumps to the next timer where nothing is left to do but to wait for a socket, unless something blocks.
        spawn_blocking(move || dropped.recv_timeout(PATIENCE));
        Standstill(held)
    }
}

impl Drop for Standstill {
    fn drop(&mut self) {
        resume();
    }
}
