//! Detects a burst of new sessions, as after an outage of the hub. Pure: the caller passes the time.

use std::time::Duration;

use tokio::time::Instant;

const BURST_WINDOW: Duration = Duration::from_secs(1);
/// Sessions per window up to which there is no burst.
const BURST_THRESHOLD: u32 = 100;

#[derive(Default)]
pub(super) struct ConnectionBurst {
    /// Start of the current window, and the sessions in it.
    window: Option<(Instant, u32)>,
    /// The window before this one had a burst.
    follows_burst: bool,
}

impl ConnectionBurst {
    /// Counts a session; true if it is part of a burst.
    pub(super) fn count(&mut self, now: Instant) -> bool {
        let (began, count) = match self.window {
            Some((began, count)) if now < began + BURST_WINDOW => (began, count + 1),
            Some((began, count)) => {
                self.follows_burst = count > BURST_THRESHOLD && now < began + 2 * BURST_WINDOW;
                (now, 1)
            }
            None => (now, 1),
        };
        self.window = Some((began, count));
        self.follows_burst || count > BURST_THRESHOLD
    }
}

#[cfg(test)]
mod tests;
