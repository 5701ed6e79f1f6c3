//! What is counted of the facts on their way to InfluxDB. Labels are words of its own.

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

/// Why a line never came there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// InfluxDB does not take it: a field was of another type before.
    Refused,
    /// It waited for too long: the spool was full.
    Full,
    /// The spool cannot be read there any more.
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

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It takes what it is given, as far as anybody knows.
    Up,
    /// What is new waits in the spool.
    Away,
    /// Not even there: the disk does not take it, or the log of changes cannot be read.
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

/// What [`Meter::waits`] means by nothing.
const NOTHING: i64 = i64::MIN;

/// Clones count the same.
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
    /// # Errors
    /// A name that Prometheus does not know.
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

    /// What is on the disk, and since when.
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
        // Milliseconds of years are exact.
        #[allow(clippy::cast_precision_loss, reason = "it is for people to look at")]
        self.age.set(age as f64 / 1000.0);
        let all = self.all().into_iter();
        all.flat_map(Collector::collect).collect()
    }
}
