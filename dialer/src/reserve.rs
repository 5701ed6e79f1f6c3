//! What all sessions of a process may hold together, beside a small part that each has for itself: messages kept until the
//! peer has acknowledged them, and what windows have grown by. Where it is used up, sessions hold back and windows stay as
//! they are; nobody waits for anybody, since each goes on with its own part. What has come in the streams' first windows and
//! nobody reads is counted beside it: a window that a peer was given cannot be taken back, but no more need be opened.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A metric's name behind the program's own, what it tells, and the number.
type Figure = (&'static str, &'static str, fn(&Reserve) -> usize);

/// Clones share the same bytes.
#[derive(Debug, Clone)]
pub struct Reserve(Arc<Bytes>);

#[derive(Debug)]
struct Bytes {
    most: usize,
    taken: AtomicUsize,
    unread: AtomicUsize,
}

impl Default for Reserve {
    /// Without a bound.
    fn default() -> Self {
        Reserve::of(usize::MAX)
    }
}

impl Reserve {
    /// What of it is worth watching.
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

    /// `most` bytes.
    #[must_use]
    pub fn of(most: usize) -> Self {
        Reserve(Arc::new(Bytes {
            most,
            taken: AtomicUsize::new(0),
            unread: AtomicUsize::new(0),
        }))
    }

    #[must_use]
    pub fn most(&self) -> usize {
        self.0.most
    }

    /// How many are in use. For a moment it may be more than there are: see `Part::force`.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.0.taken.load(Ordering::Relaxed)
    }

    /// What has come and nobody has read, to within 64 KiB a session.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.0.unread.load(Ordering::Relaxed)
    }

    /// Readers that have stopped hold as much as all may: streams that are opened now would add to it.
    #[must_use]
    pub fn is_clogged(&self) -> bool {
        self.unread() >= self.most()
    }

    /// Nothing yet, for one holder.
    pub(crate) fn unread_of_one(&self) -> Unread {
        Unread {
            reserve: self.clone(),
            bytes: 0,
            told: 0,
        }
    }

    /// Nothing yet, for one holder.
    pub(crate) fn part(&self) -> Part {
        Part {
            reserve: self.clone(),
            bytes: 0,
        }
    }
}

/// What one holder has of it; given back on drop.
#[derive(Debug)]
pub(crate) struct Part {
    reserve: Reserve,
    bytes: usize,
}

impl Part {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there are `more` to be had.
    pub(crate) fn allows(&self, more: usize) -> bool {
        self.reserve.taken().saturating_add(more) <= self.reserve.most()
    }

    /// Takes `more`, whether they are there or not: who has looked a moment before may have been overtaken.
    pub(crate) fn force(&mut self, more: usize) {
        self.bytes += more;
        self.reserve.0.taken.fetch_add(more, Ordering::Relaxed);
    }

    /// Gives back `less`, or all there is.
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

/// By so much one holder's count may differ from what all know of it: it changes with every frame, and most are read at once.
const STEP: usize = 64 * 1024;

/// What one holder's peer has sent and nobody has read.
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
        self.tell(STEP);
    }

    pub(crate) fn less(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.tell(if self.bytes == 0 { 1 } else { STEP });
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
        let reserve = Reserve::of(2 * STEP);
        let (mut one, mut other) = (reserve.unread_of_one(), reserve.unread_of_one());
        one.more(STEP - 1);
        one.less(STEP - 1);
        assert_eq!(reserve.unread(), 0);
        one.more(STEP);
        other.more(STEP - 1);
        assert_eq!((reserve.unread(), reserve.is_clogged()), (STEP, false));
        other.more(1);
        assert_eq!((reserve.unread(), reserve.is_clogged()), (2 * STEP, true));
        one.less(1);
        assert!(reserve.is_clogged(), "that is less than a step");
        one.less(STEP - 1);
        assert_eq!((reserve.unread(), one.bytes()), (STEP, 0));
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
