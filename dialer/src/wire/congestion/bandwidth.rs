//! Bandwidth estimate of a far path: the best rate of the last few round trips. The flight fills
//! the path (BDP) and a little more, so that TCP always has data to send.
//!
//! TCP in slow start may double its data with each round trip, and after a loss it holds back later
//! data for a round trip: both need several times the BDP. Therefore the limit is generous at
//! startup, until the rate stops growing. If the rate with a tight limit falls below that of a
//! generous one, the excess was not standing in a queue; then the limit is generous again for a
//! while.
//!
//! TCP measures the path, too, and takes the rate of a socket that ran dry for that of the
//! application. BBR does not end its startup by such a rate: beside another flow it goes on at 2.9
//! times the path's rate, and repeats a third of its packets. Therefore the kernel holds a BDP
//! unsent at the begin of each generous phase. At startup it does not: a rate that windows still
//! limit would pass for the path's.

use std::{mem, time::Duration};

use tokio::time::Instant;

use crate::link_io::MAX_UNSENT_BYTES;

/// Number of probes per flight.
pub(super) const PROBES_PER_FLIGHT: u64 = 16;
/// Smallest limit at startup, in bytes.
const MIN_STARTUP_LIMIT: u64 = 512 * 1024;
/// Generous limit, as a multiple of the BDP of an empty path.
const GENEROUS_FACTOR: u32 = 4;
/// As [`GENEROUS_FACTOR`], while the queue of another flow makes the path longer.
const MAX_GENEROUS_FACTOR: u32 = 16;
/// Data for TCP beyond the BDP under a tight limit, in bytes: two messages.
const TIGHT_EXTRA_BYTES: u64 = 32 * 1024;
/// Startup ends after so many round trips without a rate higher by [`GROWTH_FACTOR`]. The average
/// rate of a generous limit is one of as many at least.
const PLATEAU_ROUNDS: u32 = 3;
const GROWTH_FACTOR: f64 = 1.25;
/// Round trips until a tight limit has its effect: queues drain, and TCP repeats what a generous
/// flight has lost.
const SETTLE_ROUNDS: u32 = 4;
/// Round trips after these, by which a tight limit is judged.
const TRIAL_ROUNDS: u32 = 8;
/// A rate below this share of the generous one shows that the limit is too tight.
const TOO_TIGHT_SHARE: f64 = 0.85;
/// The best rate is forgotten after this many full round trips, at the latest after twice as many.
const BEST_RATE_ROUNDS: u32 = 6;
/// Round trips without a full flight that are a pause.
const PAUSE_ROUNDS: u32 = 4;
/// Full round trips of a generous phase in which TCP measures the path.
const MEASURED_ROUNDS: u32 = 16;
/// Limit of unsent bytes while TCP measures the path.
const MAX_MEASURED_UNSENT_BYTES: u32 = 1024 * 1024;
/// Duration of a generous phase. It doubles each time, until a tight limit suffices again.
const GENEROUS_TIME: Duration = Duration::from_secs(30);
const MAX_GENEROUS_TIME: Duration = Duration::from_mins(8);

/// What an acknowledged probe shows.
pub(super) struct Delivery {
    /// Bytes in flight when the probe was sent, and the time that they took.
    pub(super) flight: u64,
    pub(super) time: Duration,
    /// Count of the probe, and of the bytes sent up to now.
    pub(super) count: u64,
    pub(super) sent: u64,
    /// Only the limit and the pace kept bulk from filling the path further.
    pub(super) full: bool,
}

#[derive(Clone, Copy)]
enum BandwidthPhase {
    /// Generous until the rate stops growing: the best rate at its last growth.
    Beginning(f64),
    /// Tight: the average rate of the generous phase before, and whether a trial has shown that it
    /// suffices.
    Enough(f64, bool),
    /// Generous until then, because the tight limit cost bandwidth.
    Plenty(Instant),
}

/// Full rounds without a pause, and the time and count from which their average rate is taken.
struct FullRounds {
    number: u32,
    last: Instant,
    since: Instant,
    from: u64,
}

impl FullRounds {
    fn average(&self, now: Instant, count: u64) -> f64 {
        (count - self.from) as f64 / (now - self.since).as_secs_f64().max(1e-6)
    }
}

pub(super) struct BandwidthEstimate {
    phase: BandwidthPhase,
    /// Best rate in bytes per second: of the present rounds, and of those before.
    best: [f64; 2],
    rounds: u32,
    /// Bytes sent when the present round began: an acknowledgement of more begins the next.
    round: u64,
    /// A flight of the present round was full.
    filled: bool,
    /// Duration of the next generous phase.
    generous_time: Duration,
    full: Option<FullRounds>,
}

impl BandwidthEstimate {
    pub(super) fn new() -> Self {
        BandwidthEstimate {
            phase: BandwidthPhase::Beginning(0.0),
            best: [0.0; 2],
            rounds: 0,
            round: 0,
            filled: false,
            generous_time: GENEROUS_TIME,
            full: None,
        }
    }

    fn best(&self) -> f64 {
        let [now, before] = self.best;
        now.max(before)
    }

    /// Updates the best rate, and evaluates each round at its end.
    pub(super) fn delivered(&mut self, delivery: &Delivery, now: Instant) {
        let [best, _] = &mut self.best;
        let &Delivery { flight, time, .. } = delivery;
        *best = best.max(flight as f64 / time.as_secs_f64().max(1e-6));
        self.filled |= delivery.full;
        if delivery.count < self.round {
            return;
        }
        self.round = delivery.sent;
        // Flights below the limit say nothing about the capacity of the path.
        if !mem::take(&mut self.filled) {
            return;
        }
        let pause = |full: &FullRounds| now - full.last > PAUSE_ROUNDS * time;
        if self.full.as_ref().is_some_and(pause) {
            self.full = None;
        }
        self.judge(now, delivery.count);
        self.rounds += 1;
        if self.rounds >= BEST_RATE_ROUNDS {
            let [best, _] = self.best;
            (self.best, self.rounds) = ([0.0, best], 0);
        }
    }

    /// Evaluates the end of a full round.
    fn judge(&mut self, now: Instant, count: u64) {
        let best = self.best();
        let first = FullRounds {
            number: 0,
            last: now,
            since: now,
            from: count,
        };
        let Some(full) = &mut self.full else {
            self.full = Some(first);
            return;
        };
        (full.number, full.last) = (full.number + 1, now);
        let average = full.average(now, count);
        match self.phase {
            BandwidthPhase::Beginning(reached) if best > reached * GROWTH_FACTOR => {
                (self.phase, self.full) = (BandwidthPhase::Beginning(best), Some(first));
            }
            BandwidthPhase::Plenty(until) if now < until => {}
            BandwidthPhase::Beginning(_) | BandwidthPhase::Plenty(_) => {
                if full.number >= PLATEAU_ROUNDS {
                    self.phase = BandwidthPhase::Enough(average, false);
                    self.full = Some(first);
                    self.keep_best();
                }
            }
            BandwidthPhase::Enough(..) if full.number == SETTLE_ROUNDS => {
                (full.since, full.from) = (now, count);
                self.keep_best();
            }
            BandwidthPhase::Enough(..) if full.number < SETTLE_ROUNDS + TRIAL_ROUNDS => {}
            BandwidthPhase::Enough(plenty, _) if average > plenty * TOO_TIGHT_SHARE => {
                self.phase = BandwidthPhase::Enough(plenty, true);
                self.generous_time = GENEROUS_TIME;
                self.full = Some(FullRounds {
                    number: SETTLE_ROUNDS,
                    ..first
                });
            }
            // TCP may have paused: BBR does so for 200 ms to measure the round trip.
            BandwidthPhase::Enough(plenty, true) => {
                self.phase = BandwidthPhase::Enough(plenty, false);
                self.full = Some(first);
            }
            BandwidthPhase::Enough(_, false) => {
                self.phase = BandwidthPhase::Plenty(now + self.generous_time);
                self.generous_time = (2 * self.generous_time).min(MAX_GENEROUS_TIME);
                self.full = Some(first);
            }
        }
    }

    /// Forgets the best rate not before the next [`BEST_RATE_ROUNDS`] have passed.
    fn keep_best(&mut self) {
        (self.best, self.rounds) = ([self.best(); 2], 0);
    }

    /// Best rate in bytes per second, while the limit is tight.
    pub(super) fn tight_rate(&self) -> Option<f64> {
        matches!(self.phase, BandwidthPhase::Enough(..)).then(|| self.best())
    }

    /// Bytes that the kernel may hold unsent; `least` is the round trip of an empty path.
    pub(super) fn max_unsent(&self, least: Duration) -> u32 {
        let full = self.full.as_ref();
        if !matches!(self.phase, BandwidthPhase::Plenty(_))
            || full.is_some_and(|full| full.number >= MEASURED_ROUNDS)
        {
            return MAX_UNSENT_BYTES;
        }
        let bdp = (self.best() * least.as_secs_f64()) as u32;
        // Few different values, because each is a system call.
        let bytes = bdp.clamp(MAX_UNSENT_BYTES, MAX_MEASURED_UNSENT_BYTES);
        bytes.next_power_of_two()
    }

    /// Lower bound of the limit; `least` is the round trip of an empty path, `target` that of a
    /// just filled one, and `smoothed` the average of now.
    pub(super) fn flight(&self, least: Duration, target: Duration, smoothed: Duration) -> u64 {
        let best = self.best();
        let in_time = |time: Duration| (best * time.as_secs_f64()) as u64;
        match self.phase {
            BandwidthPhase::Enough(..) => in_time(target) + TIGHT_EXTRA_BYTES,
            BandwidthPhase::Beginning(_) => in_time(GENEROUS_FACTOR * least).max(MIN_STARTUP_LIMIT),
            // Below the queue of another flow, the limit would give way to that flow.
            BandwidthPhase::Plenty(_) => {
                let (short, long) = (GENEROUS_FACTOR * least, MAX_GENEROUS_FACTOR * least);
                in_time((2 * smoothed).clamp(short, long))
            }
        }
    }
}
