//! Memory budget shared by all sessions of a process: unacknowledged messages and grown windows,
//! beyond a small share that each session owns.
//!
//! When it is used up, sessions apply back-pressure and windows stay as they are. No session waits
//! for another, because each can use its own share. Unread bytes in the streams' first windows are
//! counted apart: a granted window cannot be taken back, but new streams can be refused.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Suffix of a metric's name, its help text, and its value.
type MetricSource = (&'static str, &'static str, fn(&MemoryBudget) -> usize);

/// Memory budget of a process. Clones share the same bytes.
#[derive(Debug, Clone)]
pub struct MemoryBudget(Arc<SharedBudget>);

#[derive(Debug)]
struct SharedBudget {
    limit: usize,
    used: AtomicUsize,
    unread: AtomicUsize,
}

impl Default for MemoryBudget {
    /// Without a limit.
    fn default() -> Self {
        MemoryBudget::of(usize::MAX)
    }
}

impl MemoryBudget {
    /// Gauges of the budget for the metrics endpoint.
    pub const METRICS: [MetricSource; 3] = [
        (
            "session_memory_bytes",
            "Bytes that sessions hold beyond their own shares: retransmit buffers and grown windows.",
            MemoryBudget::used,
        ),
        (
            "session_memory_limit_bytes",
            "Limit of session_memory_bytes for all sessions together.",
            MemoryBudget::limit,
        ),
        (
            "session_unread_bytes",
            "Bytes received on streams and not yet read; at the limit, new requests that would add to them are refused.",
            MemoryBudget::unread,
        ),
    ];

    /// Budget of `limit` bytes.
    #[must_use]
    pub fn of(limit: usize) -> Self {
        MemoryBudget(Arc::new(SharedBudget {
            limit,
            used: AtomicUsize::new(0),
            unread: AtomicUsize::new(0),
        }))
    }

    /// Limit of the budget in bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Bytes in use. May exceed the limit for a moment: see `Reservation::force`.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Bytes received on streams and not yet read, to within 64 KiB per session.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.0.unread.load(Ordering::Relaxed)
    }

    /// True if unread bytes reach the limit: new streams would add to them.
    #[must_use]
    pub fn is_over_budget(&self) -> bool {
        self.unread() >= self.limit()
    }

    /// Counter of unread bytes for one session.
    pub(crate) fn track_unread(&self) -> UnreadBytes {
        UnreadBytes {
            budget: self.clone(),
            bytes: 0,
            published: 0,
        }
    }

    /// Empty reservation for one session.
    pub(crate) fn reservation(&self) -> Reservation {
        Reservation {
            budget: self.clone(),
            bytes: 0,
        }
    }
}

/// Share of one session in the budget, released on drop.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: MemoryBudget,
    bytes: usize,
}

impl Reservation {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if `more` bytes are available.
    pub(crate) fn allows(&self, more: usize) -> bool {
        self.budget.used().saturating_add(more) <= self.budget.limit()
    }

    /// Reserves `more` bytes even beyond the limit: another session may have taken them since the
    /// check.
    pub(crate) fn force(&mut self, more: usize) {
        self.bytes += more;
        self.budget.0.used.fetch_add(more, Ordering::Relaxed);
    }

    /// Releases `less` bytes, at most all.
    pub(crate) fn release(&mut self, less: usize) {
        let less = less.min(self.bytes);
        self.bytes -= less;
        self.budget.0.used.fetch_sub(less, Ordering::Relaxed);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release(self.bytes);
    }
}

/// Bytes by which a session's count may differ from the shared one. The count changes with every
/// frame, and most frames are read at once.
const SHARED_STEP_BYTES: usize = 64 * 1024;

/// Bytes received by one session and not yet read.
#[derive(Debug)]
pub(crate) struct UnreadBytes {
    budget: MemoryBudget,
    bytes: usize,
    published: usize,
}

impl UnreadBytes {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.publish(SHARED_STEP_BYTES);
    }

    pub(crate) fn remove(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.publish(if self.bytes == 0 {
            1
        } else {
            SHARED_STEP_BYTES
        });
    }

    fn publish(&mut self, from: usize) {
        if self.bytes.abs_diff(self.published) < from {
            return;
        }
        let all = &self.budget.0.unread;
        all.fetch_add(self.bytes, Ordering::Relaxed);
        all.fetch_sub(self.published, Ordering::Relaxed);
        self.published = self.bytes;
    }
}

impl Drop for UnreadBytes {
    fn drop(&mut self) {
        self.remove(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_bytes_are_published_in_steps_and_removed_on_drop() {
        let budget = MemoryBudget::of(2 * SHARED_STEP_BYTES);
        let (mut one, mut other) = (budget.track_unread(), budget.track_unread());
        one.add(SHARED_STEP_BYTES - 1);
        one.remove(SHARED_STEP_BYTES - 1);
        assert_eq!(budget.unread(), 0);
        one.add(SHARED_STEP_BYTES);
        other.add(SHARED_STEP_BYTES - 1);
        assert_eq!(
            (budget.unread(), budget.is_over_budget()),
            (SHARED_STEP_BYTES, false)
        );
        other.add(1);
        assert_eq!(
            (budget.unread(), budget.is_over_budget()),
            (2 * SHARED_STEP_BYTES, true)
        );
        one.remove(1);
        assert!(budget.is_over_budget(), "less than a step");
        one.remove(SHARED_STEP_BYTES - 1);
        assert_eq!((budget.unread(), one.bytes()), (SHARED_STEP_BYTES, 0));
        drop(other);
        assert_eq!(budget.unread(), 0);
    }

    #[test]
    fn reserved_bytes_are_unavailable_to_others_until_released() {
        let budget = MemoryBudget::of(100);
        let (mut one, mut other) = (budget.reservation(), budget.reservation());
        assert!(one.allows(100) && !one.allows(101));
        one.force(70);
        assert!(other.allows(30) && !other.allows(31));
        other.force(40);
        assert_eq!(
            (budget.used(), one.allows(0)),
            (110, false),
            "it was overtaken"
        );
        one.release(20);
        assert_eq!((one.bytes(), budget.used()), (50, 90));
        other.release(1000);
        drop(one);
        assert_eq!((other.bytes(), budget.used()), (0, 0));
        assert!(MemoryBudget::default().reservation().allows(usize::MAX));
    }
}
