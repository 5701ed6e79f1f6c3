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
    /// Its link is down, or its agent silent.
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
    /// Its tasks run on another core than the request.
    pub(crate) elsewhere: bool,
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
        // A request wakes two threads for a session on another core, which is worth it once this core has twice the work.
        let cost = cost.saturating_mul(1 + u64::from(self.elsewhere));
        let fault = (self.down, self.unknown, self.full, self.probe);
        (fault, cost, self.elsewhere, self.chosen)
    }
}

#[cfg(test)]
mod tests;
