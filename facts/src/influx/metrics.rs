//! Metrics of the feed to InfluxDB. Label values are fixed.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use fairlead_store::{Clock, millis};
use prometheus::{
    Gauge, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};

/// Reason for a dropped line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DropCause {
    /// InfluxDB rejected it: the field had another type before.
    Rejected,
    /// The spool was full.
    Full,
    /// The spool was unreadable.
    Damaged,
}

impl DropCause {
    const ALL: [DropCause; 3] = [DropCause::Rejected, DropCause::Full, DropCause::Damaged];

    const fn as_str(self) -> &'static str {
        match self {
            DropCause::Rejected => "refused",
            DropCause::Full => "full",
            DropCause::Damaged => "damaged",
        }
    }
}

/// State of the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FeedState {
    /// InfluxDB accepts writes, as far as known.
    Up,
    /// New points go to the spool.
    Unavailable,
    /// The spool is not writable, or the change log not readable.
    Stuck,
}

impl FeedState {
    const ALL: [FeedState; 3] = [FeedState::Up, FeedState::Unavailable, FeedState::Stuck];

    const fn as_str(self) -> &'static str {
        match self {
            FeedState::Up => "up",
            FeedState::Unavailable => "error",
            FeedState::Stuck => "stuck",
        }
    }
}

/// Represents an empty spool in [`InfluxMetrics::set_spool`].
const EMPTY_SPOOL: i64 = i64::MIN;

/// Clones share their counters.
#[derive(Clone)]
pub(super) struct InfluxMetrics {
    written: IntCounter,
    dropped: IntCounterVec,
    spool: IntGauge,
    age: Gauge,
    state: IntGaugeVec,
    oldest: Arc<AtomicI64>,
    clock: Clock,
}

impl InfluxMetrics {
    /// Creates the metrics.
    ///
    /// # Errors
    /// An invalid Prometheus name.
    pub(super) fn new(clock: Clock) -> prometheus::Result<Self> {
        let dropped = IntCounterVec::new(
            Opts::new(
                "fairlead_influx_lines_dropped_total",
                "Lines not written to InfluxDB by cause; an unreadable batch counts as one line.",
            ),
            &["cause"],
        )?;
        for cause in DropCause::ALL {
            dropped.with_label_values(&[cause.as_str()]);
        }
        let metrics = InfluxMetrics {
            written: IntCounter::new(
                "fairlead_influx_lines_written_total",
                "Lines written to InfluxDB; repeated writes count again.",
            )?,
            dropped,
            spool: IntGauge::new(
                "fairlead_influx_spool_bytes",
                "Size of the spool for InfluxDB on disk.",
            )?,
            age: Gauge::new(
                "fairlead_influx_oldest_wait_duration_seconds",
                "Age of the oldest spooled batch; 0 if the spool is empty.",
            )?,
            state: IntGaugeVec::new(
                Opts::new(
                    "fairlead_influx_state",
                    "1 for how it set_state with InfluxDB, 0 for the rest.",
                ),
                &["state"],
            )?,
            oldest: Arc::new(AtomicI64::new(EMPTY_SPOOL)),
            clock,
        };
        metrics.set_state(FeedState::Up);
        Ok(metrics)
    }

    pub(super) fn written(&self, lines: u64) {
        self.written.inc_by(lines);
    }

    pub(super) fn dropped(&self, cause: DropCause, lines: u64) {
        self.dropped
            .with_label_values(&[cause.as_str()])
            .inc_by(lines);
    }

    /// Size of the spool and time of its oldest batch.
    pub(super) fn set_spool(&self, bytes: u64, oldest: Option<i64>) {
        self.spool.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.oldest
            .store(oldest.unwrap_or(EMPTY_SPOOL), Ordering::Relaxed);
    }

    pub(super) fn set_state(&self, state: FeedState) {
        for other in FeedState::ALL {
            let gauge = self.state.with_label_values(&[other.as_str()]);
            gauge.set(i64::from(other == state));
        }
    }

    fn all(&self) -> [&dyn Collector; 5] {
        let InfluxMetrics {
            written,
            dropped,
            spool,
            age,
            state,
            ..
        } = self;
        [written, dropped, spool, age, state]
    }
}

impl Collector for InfluxMetrics {
    fn desc(&self) -> Vec<&Desc> {
        let all = self.all().into_iter();
        all.flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let age = match self.oldest.load(Ordering::Relaxed) {
            EMPTY_SPOOL => 0,
            oldest => millis(self.clock.now()).saturating_sub(oldest).max(0),
        };
        // Exact: milliseconds of years fit a double.
        #[allow(clippy::cast_precision_loss, reason = "displayed to people only")]
        self.age.set(age as f64 / 1000.0);
        let all = self.all().into_iter();
        all.flat_map(Collector::collect).collect()
    }
}
