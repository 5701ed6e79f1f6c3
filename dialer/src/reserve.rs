//! What all sessions of a process may hold together, beside a small part that each has for itself: messages kept until the
//! peer has acknowledged them, and what windows have grown by. Where it is used up, sessions hold back and windows stay as
//! they are; nobody waits for anybody, since each goes on with its own part.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Clones share the same bytes.
#[derive(Debug, Clone)]
pub struct Reserve(Arc<Bytes>);

#[derive(Debug)]
struct Bytes {
    most: usize,
    taken: AtomicUsize,
}

impl Default for Reserve {
    /// Without a bound.
    fn default() -> Self {
        Reserve::of(usize::MAX)
    }
}

impl Reserve {
    /// `most` bytes.
    #[must_use]
    pub fn of(most: usize) -> Self {
        Reserve(Arc::new(Bytes {
            most,
            taken: AtomicUsize::new(0),
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

#[cfg(test)]
mod tests {
    use super::*;

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
