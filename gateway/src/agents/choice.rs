//! Choice of the session for a request, among those of a cluster. Pure.

use std::time::Duration;

use super::health::ProbeResult;

/// Round trips up to this are alike.
const NEAR_MILLIS: u128 = 16;

/// Result of the last probe over a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProbeOutcome {
    /// The API server is ready.
    Good,
    /// No probe has come back yet.
    #[default]
    Never,
    /// The API server is not ready.
    Bad,
    /// The agent did not answer.
    Silent,
}

impl From<&ProbeResult> for ProbeOutcome {
    fn from(probed: &ProbeResult) -> Self {
        match probed {
            ProbeResult::Good => ProbeOutcome::Good,
            ProbeResult::Bad(_) => ProbeOutcome::Bad,
            ProbeResult::Silent(_) | ProbeResult::Down(_) => ProbeOutcome::Silent,
        }
    }
}

/// Properties of a session that decide the choice.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Candidate {
    /// Its link is down.
    pub(crate) down: bool,
    /// Its agent was not recognised as being in its cluster.
    pub(crate) unknown: bool,
    /// It takes no more requests.
    pub(crate) full: bool,
    pub(crate) probe: ProbeOutcome,
    /// Requests that run on it.
    pub(crate) running: usize,
    /// Round trip of its link; `None` until measured.
    pub(crate) rtt: Option<Duration>,
    /// Turn in which it was chosen last.
    pub(crate) chosen: u64,
}

impl Candidate {
    /// Rank of the session, the least is the best: a working one first, then the cheapest one, then round robin.
    pub(crate) fn rank(&self) -> impl Ord + use<> {
        // Round trips below perception count as equal, so that agents side by side share the work. A session ten times
        // as far gets its share when the near one has ten times as many requests.
        let millis = self.rtt.map_or(0, |rtt| rtt.as_millis());
        let distance = u64::try_from(millis.div_ceil(NEAR_MILLIS)).unwrap_or(u64::MAX);
        let distance = distance.max(1);
        let distance = distance.checked_next_power_of_two().unwrap_or(u64::MAX);
        let running = u64::try_from(self.running).unwrap_or(u64::MAX);
        let cost = running.saturating_add(1).saturating_mul(distance);
        let fault = (self.down, self.unknown, self.full, self.probe);
        (fault, cost, self.chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Candidate = Candidate {
        down: false,
        unknown: false,
        full: false,
        probe: ProbeOutcome::Good,
        running: 0,
        rtt: Some(Duration::from_millis(1)),
        chosen: 9,
    };

    fn better(one: Candidate, other: Candidate) -> bool {
        one.rank() < other.rank()
    }

    #[test]
    fn working_session_beats_a_faulty_one() {
        let worst = Candidate {
            running: 400,
            rtt: Some(Duration::from_secs(2)),
            ..GOOD
        };
        for fault in [
            Candidate { down: true, ..GOOD },
            Candidate {
                unknown: true,
                ..GOOD
            },
            Candidate { full: true, ..GOOD },
            Candidate {
                probe: ProbeOutcome::Bad,
                ..GOOD
            },
            Candidate {
                probe: ProbeOutcome::Never,
                ..GOOD
            },
            Candidate {
                probe: ProbeOutcome::Silent,
                ..GOOD
            },
        ] {
            assert!(better(worst, fault), "{fault:?}");
        }
    }

    #[test]
    fn equal_sessions_share_the_load() {
        let rtt = Some(Duration::from_micros(300));
        let busy = Candidate {
            running: 3,
            chosen: 0,
            rtt,
            ..GOOD
        };
        assert!(better(GOOD, busy), "the one with less to do");
        let earlier = Candidate {
            chosen: 8,
            rtt,
            ..GOOD
        };
        assert!(better(earlier, GOOD), "the next one in turn");
    }

    #[test]
    fn far_session_is_chosen_only_under_load() {
        let far = Candidate {
            rtt: Some(Duration::from_millis(250)),
            chosen: 0,
            ..GOOD
        };
        let near = |running| Candidate { running, ..GOOD };
        assert!(better(near(0), far) && better(near(14), far));
        assert!(better(far, near(15)) && better(far, near(100)));
    }

    #[test]
    fn rank_does_not_overflow() {
        let absurd = Candidate {
            running: usize::MAX,
            rtt: Some(Duration::MAX),
            ..GOOD
        };
        assert!(better(GOOD, absurd));
    }
}
