//! What a far path carries: the best rate of the last few round trips. The flight is what that rate fills the path with
//! and a little more, so that the TCP below is never without something to send.
//!
//! A TCP that is only beginning may double what it sends with each round trip, and one that loses holds what came behind
//! a gap for another: either needs several times as much. So at first there is plenty, until no more of it is carried.
//! And where less is carried with just enough than was with plenty, it was not a queue that the rest stood in: then there
//! is plenty again for a while.

use std::time::Duration;

use tokio::time::Instant;

/// In how many parts a flight is marked.
pub(super) const MARKS: u64 = 16;
/// The least flight when a link begins, in bytes.
const START: u64 = 512 * 1024;
/// How many times what fills the path is plenty.
const PLENTY: f64 = 4.0;
/// What a TCP has to send beyond what is under way when there is just enough, in bytes: two messages.
const AHEAD: u64 = 32 * 1024;
/// So many round trips without a rate that is a quarter better, and all is carried that can be.
const PLATEAU: u32 = 3;
const BETTER: f64 = 1.25;
/// Less than this share of what was carried with plenty is too little.
const WORSE: f64 = 0.85;
/// A best rate is forgotten after as many round trips, at the latest after twice as many.
const ROUNDS: u32 = 6;
/// How long there is plenty again.
const AGAIN: Duration = Duration::from_secs(30);
/// A TCP that had nothing to send for so long begins anew, as most do (RFC 5681, 4.1).
const IDLE: Duration = Duration::from_secs(1);

enum Phase {
    /// Plenty, until that brings no more: the best rate when it last was a quarter better, and for how many rounds that
    /// has not been surpassed.
    Beginning(f64, u32),
    /// Just enough, for so many rounds. With plenty, that much was carried on the average.
    Enough(f64, u32),
    /// Plenty until then, because it brings more.
    Plenty(Instant),
}

pub(super) struct Far {
    phase: Phase,
    /// Bytes a second: of the present rounds, and of those before.
    best: [f64; 2],
    rounds: u32,
    /// What had been sent when the present round began: an answer to more begins the next.
    round: u64,
    /// From when on, and from which count, the average is taken.
    since: Option<(Instant, u64)>,
    /// It has begun once.
    known: bool,
    /// When a flight was last full.
    full: Option<Instant>,
}

impl Far {
    pub(super) fn new() -> Self {
        Far {
            phase: Phase::Beginning(0.0, 0),
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

    /// The mark at `count` has come back. The flight behind it was of so many bytes, up to `sent` now, and `full` or not.
    pub(super) fn answered(
        &mut self,
        (flight, sent, full): (u64, u64, bool),
        count: u64,
        rtt: Duration,
        now: Instant,
    ) {
        let [best, _] = &mut self.best;
        // It was all received within that time.
        *best = best.max(flight as f64 / rtt.as_secs_f64().max(1e-6));
        if full && self.full.replace(now).is_none_or(|last| now - last > IDLE) {
            (self.phase, self.since) = (Phase::Beginning(0.0, 0), None);
        }
        if count < self.round {
            return;
        }
        self.round = sent;
        // A flight that nobody filled says nothing about what the path bears.
        if full {
            self.judge(now, count);
        } else {
            self.since = None;
        }
        self.rounds += 1;
        if self.rounds >= ROUNDS {
            let [best, _] = self.best;
            (self.best, self.rounds) = ([0.0, best], 0);
        }
    }

    /// At the end of a round.
    fn judge(&mut self, now: Instant, count: u64) {
        let best = self.best();
        let (since, from) = *self.since.get_or_insert((now, count));
        let average = (count - from) as f64 / (now - since).as_secs_f64().max(1e-6);
        let next = match &mut self.phase {
            Phase::Beginning(reached, _) if best > *reached * BETTER => Phase::Beginning(best, 0),
            Phase::Beginning(_, same) if *same < PLATEAU => {
                *same += 1;
                return;
            }
            Phase::Enough(plenty, rounds) => {
                *rounds += 1;
                if *rounds < 2 * ROUNDS || average > *plenty * WORSE {
                    return;
                }
                Phase::Plenty(now + AGAIN)
            }
            Phase::Plenty(until) if now < *until => return,
            Phase::Beginning(..) | Phase::Plenty(_) => {
                self.known = true;
                Phase::Enough(average, 0)
            }
        };
        (self.phase, self.since) = (next, Some((now, count)));
    }

    /// How much may be in flight at least, if `least` is the round trip of an empty path and `target` of one that is
    /// just full.
    pub(super) fn flight(&self, least: Duration, target: Duration) -> u64 {
        let best = self.best();
        if let Phase::Enough(..) = self.phase {
            return (best * target.as_secs_f64()) as u64 + AHEAD;
        }
        let start = if self.known { 0 } else { START };
        start.max((best * least.as_secs_f64() * PLENTY) as u64)
    }
}
