//! What the store counts of its own work. Labels are words of its own.

use std::time::Duration;

use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};

/// From a tenth of a millisecond, which is memory alone, to beyond what a database that is away is waited for.
const SECONDS: [f64; 14] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 15.0,
];

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is on the disk.
    Written,
    /// Nothing was to be changed.
    Unchanged,
    /// It was made from what is no more so: an `If-Match` has lost.
    Conflict,
    /// Whoever wanted it was told no for another reason: another one has the id, a token is spent.
    Refused,
    /// The database did not take it.
    Failed,
}

impl Outcome {
    const ALL: [Outcome; 5] = [
        Outcome::Written,
        Outcome::Unchanged,
        Outcome::Conflict,
        Outcome::Refused,
        Outcome::Failed,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Outcome::Written => "written",
            Outcome::Unchanged => "unchanged",
            Outcome::Conflict => "conflict",
            Outcome::Refused => "refused",
            Outcome::Failed => "failed",
        }
    }
}

/// Clones count the same.
#[derive(Clone)]
pub struct Meter {
    reads: IntCounter,
    changes: IntCounterVec,
    conflicts: IntCounter,
    change: Histogram,
    commit: Histogram,
}

impl Meter {
    /// # Errors
    /// A name that Prometheus does not know.
    pub(super) fn new() -> prometheus::Result<Self> {
        let histogram = |name: &str, help: &str| {
            Histogram::with_opts(HistogramOpts::new(name, help).buckets(SECONDS.to_vec()))
        };
        let changes = IntCounterVec::new(
            Opts::new(
                "fairlead_store_changes_total",
                "Changes of the registry, by what became of them.",
            ),
            &["outcome"],
        )?;
        for outcome in Outcome::ALL {
            changes.with_label_values(&[outcome.as_str()]);
        }
        Ok(Meter {
            reads: IntCounter::new(
                "fairlead_store_reads_total",
                "Questions that the database was asked because memory does not know the answer.",
            )?,
            changes,
            conflicts: IntCounter::new(
                "fairlead_store_conflicts_total",
                "Commits for which another hub was faster, so that all was decided again.",
            )?,
            change: histogram(
                "fairlead_store_change_duration_seconds",
                "From when a change was asked for until it was answered.",
            )?,
            commit: histogram(
                "fairlead_store_commit_duration_seconds",
                "How long the database took for a commit; it may hold several changes.",
            )?,
        })
    }

    pub(super) fn read(&self) {
        self.reads.inc();
    }

    pub(super) fn changed(&self, outcome: Outcome) {
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
