//! Commits of other hubs on the same database, as far as observed by this process.
//!
//! An unknown commit counts as this hub's own. A consumer that follows the log for its own hub's
//! changes may then process a change twice, but never miss one.

use std::{
    collections::VecDeque,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::revision::Revision;

/// Maximum number of ranges; the oldest are dropped.
const MOST: usize = 16_384;

#[derive(Default)]
pub(super) struct Foreign(Mutex<Known>);

#[derive(Default)]
struct Known {
    ranges: VecDeque<Range>,
    /// A commit of this hub got no answer: it may be among the next ones.
    doubtful: bool,
}

struct Range {
    after: Revision,
    until: Revision,
}

impl Foreign {
    /// Adds the revisions after one up to another. Calls come in order.
    pub(super) fn add(&self, after: Revision, until: Revision) {
        if until <= after {
            return;
        }
        let mut known = self.lock();
        if mem::take(&mut known.doubtful) {
            return;
        }
        let ranges = &mut known.ranges;
        match ranges.back_mut() {
            Some(last) if last.until == after => last.until = until,
            _ => ranges.push_back(Range { after, until }),
        }
        if ranges.len() > MOST {
            ranges.pop_front();
        }
    }

    /// The next commits may be this hub's own.
    pub(super) fn doubt(&self) {
        self.lock().doubtful = true;
    }

    pub(super) fn has(&self, revision: Revision) -> bool {
        let ranges = &self.lock().ranges;
        let at = ranges.partition_point(|range| range.until < revision);
        ranges.get(at).is_some_and(|range| range.after < revision)
    }

    /// Drops revisions up to this one, which will not be queried any more.
    pub(super) fn forget(&self, until: Revision) {
        let ranges = &mut self.lock().ranges;
        let old = ranges.partition_point(|range| range.until <= until);
        ranges.drain(..old);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_did_is_told_from_what_is_not_known() {
        let foreign = Foreign::default();
        let known = || -> Vec<u64> { (0..12).filter(|it| foreign.has(Revision(*it))).collect() };
        assert!(known().is_empty());
        foreign.add(Revision(2), Revision(4));
        foreign.add(Revision(4), Revision(5));
        foreign.add(Revision(5), Revision(5));
        foreign.add(Revision(8), Revision(9));
        assert_eq!(known(), [3, 4, 5, 9]);
        foreign.forget(Revision(4));
        assert_eq!(known(), [3, 4, 5, 9], "a range goes when all of it is old");
        foreign.forget(Revision(5));
        assert_eq!(known(), [9]);
    }

    #[test]
    fn what_may_be_ones_own_is_not_taken_for_anothers() {
        let foreign = Foreign::default();
        foreign.doubt();
        foreign.add(Revision(2), Revision(4));
        foreign.add(Revision(4), Revision(5));
        assert!(!foreign.has(Revision(4)));
        assert!(foreign.has(Revision(5)));
    }

    #[test]
    fn there_is_a_most_of_them() {
        let foreign = Foreign::default();
        for n in 0..=MOST as u64 {
            foreign.add(Revision(2 * n), Revision(2 * n + 1));
        }
        assert!(!foreign.has(Revision(1)));
        assert!(foreign.has(Revision(3)));
    }
}
