//! Recent changes of deployments, for followers of their status.

use std::collections::{BTreeSet, VecDeque};

use fairlead_api::{BundleId, ClusterId};

/// Number of remembered changes. Followers that are further behind get all states again.
const MAX_CHANGES: usize = 20_000;

/// Changes in order; each has a number.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog {
    /// Number of the last change.
    last: u64,
    changes: VecDeque<(ClusterId, BundleId)>,
}

impl ChangeLog {
    /// Number of the last change; 0 before the first.
    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    pub(crate) fn push(&mut self, cluster: ClusterId, bundle: BundleId) {
        if self.changes.len() == MAX_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back((cluster, bundle));
        self.last += 1;
    }

    /// Changed deployments after a change; `None` if older changes are missing.
    pub(crate) fn since(&self, change: u64) -> Option<BTreeSet<(&ClusterId, &BundleId)>> {
        let missed = self.last.checked_sub(change)?;
        let missed = usize::try_from(missed).ok()?;
        let start = self.changes.len().checked_sub(missed)?;
        let changes = self.changes.range(start..);
        Some(changes.map(|(cluster, bundle)| (cluster, bundle)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_too_far_behind_get_everything() {
        let mut log = ChangeLog::default();
        let cluster = |number: usize| -> ClusterId { format!("c-{number}").parse().unwrap() };
        let bundle: BundleId = "b-shop".parse().unwrap();
        assert_eq!(log.since(0).unwrap().len(), 0);
        assert!(log.since(1).is_none(), "of another process");
        for number in 0..MAX_CHANGES + 1 {
            log.push(cluster(number % 3), bundle.clone());
        }
        assert!(log.since(0).is_none());
        assert_eq!(log.since(1).unwrap().len(), 3);
        assert_eq!(log.since(log.last() - 1).unwrap().len(), 1);
        assert_eq!(log.since(log.last()).unwrap().len(), 0);
    }
}
