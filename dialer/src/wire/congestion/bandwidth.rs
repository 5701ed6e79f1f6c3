//! Bandwidth estimate of a far path: the best rate of the last few round trips. The flight fills
//! the path (BDP) and a little more, so that TCP always has data to send.
//!
//! TCP in slow start may double its data with each round trip, and after a loss it holds back later
//! data for a round trip: both need several times the BDP. Therefore the limit is generous at
//! startup, until the rate stops growing. If the rate with a tight limit falls below that of a
//! generous one, the excess was not standing in a queue; then the limit is generous again for a
//! while.

use std::time::Duration;

use tokio::time::Instant;

/// Number of probes per flight.
pub(super) const PROBES_PER_FLIGHT: u64 = 16;
/// Smallest limit at startup, in bytes.
const MIN_STARTUP_LIMIT: u64 = 512 * 1024;
/// Generous limit, as a multiple of the BDP.
const GENEROUS_FACTOR: f64 = 4.0;
/// Data for TCP beyond the BDP under a tight limit, in bytes: two messages.
const TIGHT_EXTRA_BYTES: u64 = 32 * 1024;
/// Startup ends after so many round trips without a rate higher by [`GROWTH_FACTOR`].
const PLATEAU_ROUNDS: u32 = 3;
const GROWTH_FACTOR: f64 = 1.25;
/// A rate below this share of the generous one shows that the limit is too tight.
const TOO_TIGHT_SHARE: f64 = 0.85;
/// The best rate is forgotten after this many round trips, at the latest after twice as many.
const BEST_RATE_ROUNDS: u32 = 6;
/// Duration of a generous phase.
const GENEROUS_TIME: Duration = Duration::from_secs(30);
/// Idle time after which TCP returns to slow start, as most do (RFC 5681, 4.1).
const SLOW_START_IDLE: Duration = Duration::from_secs(1);

enum BandwidthPhase {
    /// Generous until the rate stops growing: the best rate at its last growth, and the rounds
    /// since.
    Beginning(f64, u32),
    /// Tight, for so many rounds. First the average rate of the generous phase.
    Enough(f64, u32),
    /// Generous until then, because the tight limit cost bandwidth.
    Plenty(Instant),
}

pub(super) struct BandwidthEstimate {
    phase: BandwidthPhase,
    /// Best rate in bytes per second: of the present rounds, and of those before.
    best: [f64; 2],
    rounds: u32,
    /// Bytes sent when the present round began: an acknowledgement of more begins the next.
    round: u64,
    /// Start of the average: time and count.
    since: Option<(Instant, u64)>,
    /// Startup has ended once.
    known: bool,
    /// Time of the last full flight.
    full: Option<Instant>,
}

impl BandwidthEstimate {
    pub(super) fn new() -> Self {
        BandwidthEstimate {
            phase: BandwidthPhase::Beginning(0.0, 0),
            best: [0.0; 2],
            rounds: 0,
            round: 0,
            since: None,
            known: false,
            full: None,
        }
    }

    fn best(&self) -> f64 {
        let [now, before] = self.best;
        now.max(before)
    }

    /// Handles an acknowledged probe at `count`: `flight` bytes when it was sent, `sent` bytes up
    /// to now, and whether the flight was `full`.
    pub(super) fn answered(
        &mut self,
        (flight, sent, full): (u64, u64, bool),
        count: u64,
        rtt: Duration,
        now: Instant,
    ) {
        let [best, _] = &mut self.best;
        // All of it was received within that time.
        *best = best.max(flight as f64 / rtt.as_secs_f64().max(1e-6));
        if full
            && self
                .full
                .replace(now)
                .is_none_or(|last| now - last > SLOW_START_IDLE)
        {
            (self.phase, self.since) = (BandwidthPhase::Beginning(0.0, 0), None);
        }
        if count < self.round {
            return;
        }
        self.round = sent;
        // A flight below the limit says nothing about the capacity of the path.
        if full {
            self.judge(now, count);
        } else {
            self.since = None;
        }
        self.rounds += 1;
        if self.rounds >= BEST_RATE_ROUNDS {
            let [best, _] = self.best;
            (self.best, self.rounds) = ([0.0, best], 0);
        }
    }

    /// Evaluates the end of a round.
    fn judge(&mut self, now: Instant, count: u64) {
        let best = self.best();
        let (since, from) = *self.since.get_or_insert((now, count));
        let average = (count - from) as f64 / (now - since).as_secs_f64().max(1e-6);
        let next = match &mut self.phase {
            BandwidthPhase::Beginning(reached, _) if best > *reached * GROWTH_FACTOR => {
                BandwidthPhase::Beginning(best, 0)
            }
            BandwidthPhase::Beginning(_, same) if *same < PLATEAU_ROUNDS => {
                *same += 1;
                return;
            }
            BandwidthPhase::Enough(plenty, rounds) => {
                *rounds += 1;
                if *rounds < 2 * BEST_RATE_ROUNDS || average > *plenty * TOO_TIGHT_SHARE {
                    return;
                }
                BandwidthPhase::Plenty(now + GENEROUS_TIME)
            }
            BandwidthPhase::Plenty(until) if now < *until => return,
            BandwidthPhase::Beginning(..) | BandwidthPhase::Plenty(_) => {
                self.known = true;
                BandwidthPhase::Enough(average, 0)
            }
        };
        (self.phase, self.since) = (next, Some((now, count)));
    }

    /// Lower bound of the limit; `least` is the round trip of an empty path, `target` that of a
    /// just filled one.
    pub(super) fn flight(&self, least: Duration, target: Duration) -> u64 {
        let best = self.best();
        if let BandwidthPhase::Enough(..) = self.phase {
            return (best * target.as_secs_f64()) as u64 + TIGHT_EXTRA_BYTES;
        }
        let start = if self.known { 0 } else { MIN_STARTUP_LIMIT };
        start.max((best * least.as_secs_f64() * GENEROUS_FACTOR) as u64)
    }
}
