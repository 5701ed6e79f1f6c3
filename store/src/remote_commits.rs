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
const MAX_RANGES: usize = 16_384;

#[derive(Default)]
pub(super) struct RemoteCommits(Mutex<RangeLog>);

#[derive(Default)]
struct RangeLog {
    ranges: VecDeque<RevisionRange>,
    /// A commit of this hub got no answer: it may be among the next ones.
    next_may_be_own: bool,
}

struct RevisionRange {
    after: Revision,
    until: Revision,
}

impl RemoteCommits {
    /// Adds the revisions after one up to another. Calls come in order.
    pub(super) fn add(&self, after: Revision, until: Revision) {
        if until <= after {
            return;
        }
        let mut known = self.lock();
        if mem::take(&mut known.next_may_be_own) {
            return;
        }
        let ranges = &mut known.ranges;
        match ranges.back_mut() {
            Some(last) if last.until == after => last.until = until,
            _ => ranges.push_back(RevisionRange { after, until }),
        }
        if ranges.len() > MAX_RANGES {
            ranges.pop_front();
        }
    }

    /// The next commits may be this hub's own.
    pub(super) fn expect_own(&self) {
        self.lock().next_may_be_own = true;
    }

    pub(super) fn contains(&self, revision: Revision) -> bool {
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

    fn lock(&self) -> MutexGuard<'_, RangeLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_ranges_are_remote_and_others_are_not() {
        let commits = RemoteCommits::default();
        let known = || -> Vec<u64> {
            (0..12)
                .filter(|it| commits.contains(Revision(*it)))
                .collect()
        };
        assert!(known().is_empty());
        commits.add(Revision(2), Revision(4));
        commits.add(Revision(4), Revision(5));
        commits.add(Revision(5), Revision(5));
        commits.add(Revision(8), Revision(9));
        assert_eq!(known(), [3, 4, 5, 9]);
        commits.forget(Revision(4));
        assert_eq!(known(), [3, 4, 5, 9], "a range goes when all of it is old");
        commits.forget(Revision(5));
        assert_eq!(known(), [9]);
    }

    #[test]
    fn a_commit_without_answer_counts_as_own() {
        let commits = RemoteCommits::default();
        commits.expect_own();
        commits.add(Revision(2), Revision(4));
        commits.add(Revision(4), Revision(5));
        assert!(!commits.contains(Revision(4)));
        assert!(commits.contains(Revision(5)));
    }

    #[test]
    fn the_number_of_ranges_is_bounded() {
        let commits = RemoteCommits::default();
        for n in 0..=MAX_RANGES as u64 {
            commits.add(Revision(2 * n), Revision(2 * n + 1));
        }
        assert!(!commits.contains(Revision(1)));
        assert!(commits.contains(Revision(3)));
    }
}
