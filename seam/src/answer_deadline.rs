//! Deadline of a module's answer, extended by handlers of large bodies.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Additional time for the answer of a module, in the extensions of its request. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct AnswerDeadline(Arc<AtomicU64>);

impl AnswerDeadline {
    /// Extends the deadline by `more` in all; a shorter extension than an earlier one has no effect.
    ///
    /// The caller bounds the time of each of its waits.
    pub fn extend_by(&self, more: Duration) {
        let more = u64::try_from(more.as_millis()).unwrap_or(u64::MAX);
        self.0.fetch_max(more, Ordering::Relaxed);
    }

    /// Additional time so far.
    #[must_use]
    pub fn extension(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}
