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
type Figure = (&'static str, &'static str, fn(&Reserve) -> usize);

/// Memory budget of a process. Clones share the same bytes.
#[derive(Debug, Clone)]
pub struct Reserve(Arc<Bytes>);

#[derive(Debug)]
struct Bytes {
    most: usize,
    taken: AtomicUsize,
    unread: AtomicUsize,
}

impl Default for Reserve {
    /// Without a limit.
    fn default() -> Self {
        Reserve::of(usize::MAX)
    }
}

impl Reserve {
    /// Gauges of the budget for the metrics endpoint.
    pub const FIGURES: [Figure; 3] = [
        (
            "session_memory_bytes",
            "What sessions hold beyond each one's own part: messages not acknowledged, grown windows.",
            Reserve::taken,
        ),
        (
            "session_memory_limit_bytes",
            "How much of that there is for all sessions together.",
            Reserve::most,
        ),
        (
            "session_unread_bytes",
            "What has come on streams and is read by nobody; at the same limit new requests that would add to it are refused.",
            Reserve::unread,
        ),
    ];

    /// Budget of `most` bytes.
    #[must_use]
    pub fn of(most: usize) -> Self {
        Reserve(Arc::new(Bytes {
            most,
            taken: AtomicUsize::new(0),
            unread: AtomicUsize::new(0),
        }))
    }

    /// Limit of the budget in bytes.
    #[must_use]
    pub fn most(&self) -> usize {
        self.0.most
    }

    /// Bytes in use. May exceed the limit for a moment: see `Part::force`.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.0.taken.load(Ordering::Relaxed)
    }

    /// Bytes received on streams and not yet read, to within 64 KiB per session.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.0.unread.load(Ordering::Relaxed)
    }

    /// True if unread bytes reach the limit: new streams would add to them.
    #[must_use]
    pub fn is_clogged(&self) -> bool {
        self.unread() >= self.most()
    }

    /// Counter of unread bytes for one session.
    pub(crate) fn unread_of_one(&self) -> Unread {
        Unread {
            reserve: self.clone(),
            bytes: 0,
            told: 0,
        }
    }

    /// Empty reservation for one session.
    pub(crate) fn part(&self) -> Part {
        Part {
            reserve: self.clone(),
            bytes: 0,
        }
    }
}

/// Share of one session in the budget, released on drop.
#[derive(Debug)]
pub(crate) struct Part {
    reserve: Reserve,
    bytes: usize,
}

impl Part {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if `more` bytes are available.
    pub(crate) fn allows(&self, more: usize) -> bool {
        self.reserve.taken().saturating_add(more) <= self.reserve.most()
    }

    /// Reserves `more` bytes even beyond the limit: another session may have taken them since the
    /// check.
    pub(crate) fn force(&mut self, more: usize) {
        self.bytes += more;
        self.reserve.0.taken.fetch_add(more, Ordering::Relaxed);
    }

    /// Releases `less` bytes, at most all.
    pub(crate) fn give_back(&mut self, less: usize) {
        let less = less.min(self.bytes);
        self.bytes -= less;
        self.reserve.0.taken.fetch_sub(less, Ordering::Relaxed);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

/// Bytes by which a session's count may differ from the shared one. The count changes with every
/// frame, and most frames are read at once.
const SHARED_STEP_BYTES: usize = 64 * 1024;

/// Bytes received by one session and not yet read.
#[derive(Debug)]
pub(crate) struct Unread {
    reserve: Reserve,
    bytes: usize,
    told: usize,
}

impl Unread {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn more(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.tell(SHARED_STEP_BYTES);
    }

    pub(crate) fn less(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.tell(if self.bytes == 0 {
            1
        } else {
            SHARED_STEP_BYTES
        });
    }

    fn tell(&mut self, from: usize) {
        if self.bytes.abs_diff(self.told) < from {
            return;
        }
        let all = &self.reserve.0.unread;
        all.fetch_add(self.bytes, Ordering::Relaxed);
        all.fetch_sub(self.told, Ordering::Relaxed);
        self.told = self.bytes;
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.less(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_reads_is_known_in_steps_and_forgotten_with_its_holder() {
        let reserve = Reserve::of(2 * SHARED_STEP_BYTES);
        let (mut one, mut other) = (reserve.unread_of_one(), reserve.unread_of_one());
        one.more(SHARED_STEP_BYTES - 1);
        one.less(SHARED_STEP_BYTES - 1);
        assert_eq!(reserve.unread(), 0);
        one.more(SHARED_STEP_BYTES);
        other.more(SHARED_STEP_BYTES - 1);
        assert_eq!(
            (reserve.unread(), reserve.is_clogged()),
            (SHARED_STEP_BYTES, false)
        );
        other.more(1);
        assert_eq!(
            (reserve.unread(), reserve.is_clogged()),
            (2 * SHARED_STEP_BYTES, true)
        );
        one.less(1);
        assert!(reserve.is_clogged(), "that is less than a step");
        one.less(SHARED_STEP_BYTES - 1);
        assert_eq!((reserve.unread(), one.bytes()), (SHARED_STEP_BYTES, 0));
        drop(other);
        assert_eq!(reserve.unread(), 0);
    }

    #[test]
    fn what_is_taken_is_there_for_nobody_else_until_it_is_given_back() {
        let reserve = Reserve::of(100);
        let (mut one, mut other) = (reserve.part(), reserve.part());
        assert!(one.allows(100) && !one.allows(101));
        one.force(70);
        assert!(other.allows(30) && !other.allows(31));
        other.force(40);
        assert_eq!(
            (reserve.taken(), one.allows(0)),
            (110, false),
            "it was overtaken"
        );
        one.give_back(20);
        assert_eq!((one.bytes(), reserve.taken()), (50, 90));
        other.give_back(1000);
        drop(one);
        assert_eq!((other.bytes(), reserve.taken()), (0, 0));
        assert!(Reserve::default().part().allows(usize::MAX));
    }
}
