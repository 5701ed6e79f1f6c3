//! Pace of bulk over a far path with a tight limit: one and a half times the best rate.
//!
//! A TCP that repeats lost data acknowledges a whole flight at once. Sent again at once, it would
//! overflow a short queue, and more would be lost.

use std::{mem, time::Duration};

use tokio::time::Instant;

/// Pace as a multiple of the best rate.
const PACE_FACTOR: f64 = 1.5;
/// Slowest pace, in bytes per second.
const MIN_PACE: f64 = 100e3;
/// Time by which bulk may be ahead of its pace.
const MAX_BURST: Duration = Duration::from_millis(4);

pub(super) struct BulkPace {
    /// Bytes sent.
    sent: u64,
    /// Time at which the last of them leaves at the pace.
    until: Instant,
    /// Bulk is too far ahead of its pace, and was since the last probe.
    is_held: bool,
    was_held: bool,
}

impl BulkPace {
    pub(super) fn new(sent: u64, now: Instant) -> Self {
        BulkPace {
            sent,
            until: now,
            is_held: false,
            was_held: false,
        }
    }

    /// Holds bulk back if `sent` bytes are too far ahead for a path of the `best` rate.
    pub(super) fn sent(&mut self, sent: u64, best: Option<f64>, now: Instant) {
        let bytes = sent.saturating_sub(mem::replace(&mut self.sent, sent));
        let Some(best) = best.filter(|_| bytes > 0) else {
            return;
        };
        let time = bytes as f64 / (best * PACE_FACTOR).max(MIN_PACE);
        self.until = self.until.max(now) + Duration::from_secs_f64(time);
        self.is_held = self.until > now + MAX_BURST;
        self.was_held |= self.is_held;
    }

    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    /// True if bulk was held back since the last call.
    pub(super) fn take_was_held(&mut self) -> bool {
        mem::take(&mut self.was_held)
    }

    /// Time at which bulk that is held back may go on.
    pub(super) fn release_time(&self) -> Option<Instant> {
        self.is_held.then(|| self.until - MAX_BURST)
    }

    /// True if bulk was held back up to now.
    pub(super) fn release(&mut self, now: Instant) -> bool {
        let due = self.release_time().is_some_and(|at| at <= now);
        self.is_held &= !due;
        due
    }
}
