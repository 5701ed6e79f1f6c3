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
pub(super) enum Cause {
    /// InfluxDB rejected it: the field had another type before.
    Refused,
    /// The spool was full.
    Full,
    /// The spool was unreadable.
    Damaged,
}

impl Cause {
    const ALL: [Cause; 3] = [Cause::Refused, Cause::Full, Cause::Damaged];

    const fn as_str(self) -> &'static str {
        match self {
            Cause::Refused => "refused",
            Cause::Full => "full",
            Cause::Damaged => "damaged",
        }
    }
}

/// State of the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// InfluxDB accepts writes, as far as known.
    Up,
    /// New points go to the spool.
    Away,
    /// The spool is not writable, or the change log not readable.
    Stuck,
}

impl State {
    const ALL: [State; 3] = [State::Up, State::Away, State::Stuck];

    const fn as_str(self) -> &'static str {
        match self {
            State::Up => "up",
            State::Away => "away",
            State::Stuck => "stuck",
        }
    }
}

/// Represents an empty spool in [`Meter::waits`].
const NOTHING: i64 = i64::MIN;

/// Clones share their counters.
#[derive(Clone)]
pub(super) struct Meter {
    written: IntCounter,
    dropped: IntCounterVec,
    spool: IntGauge,
    age: Gauge,
    state: IntGaugeVec,
    oldest: Arc<AtomicI64>,
    clock: Clock,
}

impl Meter {
    /// Creates the metrics.
    ///
    /// # Errors
    /// An invalid Prometheus name.
    pub(super) fn new(clock: Clock) -> prometheus::Result<Self> {
        let dropped = IntCounterVec::new(
            Opts::new(
                "fairlead_influx_lines_dropped_total",
                "Lines that never came to InfluxDB, by why; of what is damaged, batches that nobody can count are one each.",
            ),
            &["cause"],
        )?;
        for cause in Cause::ALL {
            dropped.with_label_values(&[cause.as_str()]);
        }
        let meter = Meter {
            written: IntCounter::new(
                "fairlead_influx_lines_written_total",
                "Lines that InfluxDB has taken; one that was sent again counts again.",
            )?,
            dropped,
            spool: IntGauge::new(
                "fairlead_influx_spool_bytes",
                "What waits for InfluxDB on the disk.",
            )?,
            age: Gauge::new(
                "fairlead_influx_oldest_wait_duration_seconds",
                "How old the oldest is that waits for InfluxDB on the disk; 0 where nothing does.",
            )?,
            state: IntGaugeVec::new(
                Opts::new(
                    "fairlead_influx_state",
                    "1 for how it stands with InfluxDB, 0 for the rest.",
                ),
                &["state"],
            )?,
            oldest: Arc::new(AtomicI64::new(NOTHING)),
            clock,
        };
        meter.stands(State::Up);
        Ok(meter)
    }

    pub(super) fn written(&self, lines: u64) {
        self.written.inc_by(lines);
    }

    pub(super) fn dropped(&self, cause: Cause, lines: u64) {
        self.dropped
            .with_label_values(&[cause.as_str()])
            .inc_by(lines);
    }

    /// Size of the spool and time of its oldest batch.
    pub(super) fn waits(&self, bytes: u64, oldest: Option<i64>) {
        self.spool.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.oldest
            .store(oldest.unwrap_or(NOTHING), Ordering::Relaxed);
    }

    pub(super) fn stands(&self, state: State) {
        for other in State::ALL {
            let gauge = self.state.with_label_values(&[other.as_str()]);
            gauge.set(i64::from(other == state));
        }
    }

    fn all(&self) -> [&dyn Collector; 5] {
        let Meter {
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

impl Collector for Meter {
    fn desc(&self) -> Vec<&Desc> {
        let all = self.all().into_iter();
        all.flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let age = match self.oldest.load(Ordering::Relaxed) {
            NOTHING => 0,
            oldest => millis(self.clock.now()).saturating_sub(oldest).max(0),
        };
        // Exact: milliseconds of years fit a double.
        #[allow(clippy::cast_precision_loss, reason = "it is for people to look at")]
        self.age.set(age as f64 / 1000.0);
        let all = self.all().into_iter();
        all.flat_map(Collector::collect).collect()
    }
}
