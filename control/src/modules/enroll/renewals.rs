//! Limit of renewals. An agent with a wrong clock renewed its certificate in a loop, at the hub's cost.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use fairlead_api::ClusterId;
use time::{Duration, OffsetDateTime};

/// Renewals of one cluster in [`RENEWALS_WINDOW`]: 16 sessions renew once in 16 hours each, plus retries.
pub(super) const MAX_RENEWALS: u32 = 60;
/// Period over which renewals are counted.
pub(super) const RENEWALS_WINDOW: Duration = Duration::minutes(10);
/// Counted clusters above which ended periods are removed.
const CLEANUP_THRESHOLD: usize = 1024;

/// Renewals of each cluster in its current period.
#[derive(Default)]
pub(crate) struct RenewalLimit(Mutex<HashMap<ClusterId, Period>>);

struct Period {
    began: OffsetDateTime,
    renewals: u32,
}

impl RenewalLimit {
    /// Counts a renewal; false if the cluster has had too many in this period.
    pub(super) fn permits(&self, cluster: &ClusterId, now: OffsetDateTime) -> bool {
        let mut periods = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = |period: &Period| (now - period.began).abs() < RENEWALS_WINDOW;
        if periods.len() >= CLEANUP_THRESHOLD {
            periods.retain(|_, period| runs(period));
        }
        let fresh = || Period {
            began: now,
            renewals: 0,
        };
        let period = periods.entry(cluster.clone()).or_insert_with(fresh);
        if !runs(period) {
            *period = fresh();
        }
        period.renewals = period.renewals.saturating_add(1);
        period.renewals <= MAX_RENEWALS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewals_of_one_cluster_are_bounded_per_period() {
        let limit = RenewalLimit::default();
        let (one, other) = ("c-one".parse().unwrap(), "c-other".parse().unwrap());
        let begin = OffsetDateTime::UNIX_EPOCH;
        for _ in 0..MAX_RENEWALS {
            assert!(limit.permits(&one, begin));
        }
        assert!(!limit.permits(&one, begin + Duration::minutes(9)));
        assert!(limit.permits(&other, begin), "another cluster has its own");
        assert!(limit.permits(&one, begin + RENEWALS_WINDOW));
    }

    #[test]
    fn ended_periods_are_forgotten() {
        let limit = RenewalLimit::default();
        let begin = OffsetDateTime::UNIX_EPOCH;
        for number in 0..CLEANUP_THRESHOLD {
            let cluster = format!("c-{number}").parse().unwrap();
            assert!(limit.permits(&cluster, begin));
        }
        let late = "c-late".parse().unwrap();
        assert!(limit.permits(&late, begin + RENEWALS_WINDOW));
        assert_eq!(limit.0.lock().unwrap().len(), 1);
    }
}
