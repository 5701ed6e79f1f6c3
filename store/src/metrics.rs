//! Metrics of the store. Label values are fixed.

use std::time::Duration;

use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};

/// From 0.1 ms (memory only) to beyond the wait budget for an unreachable database.
const DURATION_BUCKETS: [f64; 14] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 15.0,
];

/// Result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeOutcome {
    /// Durable on disk.
    Written,
    /// Nothing to change.
    Unchanged,
    /// The precondition was outdated: an `If-Match` failed.
    Conflict,
    /// Rejected for another reason: the id is taken, a token is spent.
    Refused,
    /// The database failed.
    Failed,
}

impl ChangeOutcome {
    const ALL: [ChangeOutcome; 5] = [
        ChangeOutcome::Written,
        ChangeOutcome::Unchanged,
        ChangeOutcome::Conflict,
        ChangeOutcome::Refused,
        ChangeOutcome::Failed,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            ChangeOutcome::Written => "written",
            ChangeOutcome::Unchanged => "unchanged",
            ChangeOutcome::Conflict => "conflict",
            ChangeOutcome::Refused => "refused",
            ChangeOutcome::Failed => "failed",
        }
    }
}

/// Metrics of the store; clones share their counters.
#[derive(Clone)]
pub struct Meter {
    reads: IntCounter,
    changes: IntCounterVec,
    conflicts: IntCounter,
    change: Histogram,
    commit: Histogram,
}

impl Meter {
    /// Creates the metrics.
    ///
    /// # Errors
    /// An invalid Prometheus name.
    pub(super) fn new() -> prometheus::Result<Self> {
        let histogram = |name: &str, help: &str| {
            Histogram::with_opts(HistogramOpts::new(name, help).buckets(DURATION_BUCKETS.to_vec()))
        };
        let changes = IntCounterVec::new(
            Opts::new(
                "fairlead_store_changes_total",
                "Changes of the registry by outcome.",
            ),
            &["outcome"],
        )?;
        for outcome in ChangeOutcome::ALL {
            changes.with_label_values(&[outcome.as_str()]);
        }
        Ok(Meter {
            reads: IntCounter::new(
                "fairlead_store_reads_total",
                "Reads of the database that memory could not serve.",
            )?,
            changes,
            conflicts: IntCounter::new(
                "fairlead_store_conflicts_total",
                "Commits repeated because another hub committed first.",
            )?,
            change: histogram(
                "fairlead_store_change_duration_seconds",
                "Time from the request of a change to its answer, in seconds.",
            )?,
            commit: histogram(
                "fairlead_store_commit_duration_seconds",
                "Duration of a database commit, which may contain several changes, in seconds.",
            )?,
        })
    }

    pub(super) fn read(&self) {
        self.reads.inc();
    }

    pub(super) fn changed(&self, outcome: ChangeOutcome) {
        self.changes.with_label_values(&[outcome.as_str()]).inc();
    }

    pub(super) fn conflict(&self) {
        self.conflicts.inc();
    }

    pub(super) fn change_took(&self, time: Duration) {
        self.change.observe(time.as_secs_f64());
    }

    pub(super) fn commit_took(&self, time: Duration) {
        self.commit.observe(time.as_secs_f64());
    }
}

impl Meter {
    fn all(&self) -> [&dyn Collector; 5] {
        let Meter {
            reads,
            changes,
            conflicts,
            change,
            commit,
        } = self;
        [reads, changes, conflicts, change, commit]
    }
}

impl Collector for Meter {
    fn desc(&self) -> Vec<&Desc> {
        let all = self.all().into_iter();
        all.flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let all = self.all().into_iter();
        all.flat_map(Collector::collect).collect()
    }
}
