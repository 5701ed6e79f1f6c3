//! Status of a cluster, as its probes show it. "Connected" means that a probe came back from the API server within the
//! last 15 seconds, or that its agent has reported no change since. Pure: the caller passes the time.

use std::time::Duration;

use fairlead_api::{
    Code,
    resources::{ClusterState, ClusterStatus, LastError},
};
use time::OffsetDateTime;
use tokio::time::Instant;

/// Validity of a good probe.
pub(crate) const PROBE_VALIDITY: Duration = Duration::from_secs(15);

/// Result of one probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProbeResult {
    /// The API server is ready.
    Good,
    /// The agent answered, the API server is not ready.
    Bad(LastError),
    /// The agent did not answer.
    Silent(LastError),
    /// There was no link.
    Down(LastError),
}

pub(crate) struct HealthTracker {
    /// The last good probe, or the start of the session.
    last_good: Instant,
    /// The last answer of the agent, or the start of the session.
    last_answer: Instant,
    was_good: bool,
    reported: Option<(ClusterState, Option<Code>)>,
}

impl HealthTracker {
    pub(crate) fn new(now: Instant) -> Self {
        HealthTracker {
            last_good: now,
            last_answer: now,
            was_good: false,
            reported: None,
        }
    }

    /// The API server was ready then, as far as it was before.
    pub(crate) fn ready(&mut self, at: Instant) {
        if self.was_good {
            self.last_good = self.last_good.max(at);
            self.last_answer = self.last_answer.max(at);
        }
    }

    /// The status to report after a probe, if it has changed.
    pub(crate) fn after(&mut self, probed: ProbeResult, now: Instant) -> Option<ClusterStatus> {
        if matches!(probed, ProbeResult::Good | ProbeResult::Bad(_)) {
            self.last_answer = now;
        }
        let (state, last_error) = match probed {
            ProbeResult::Good => {
                self.last_good = now;
                self.was_good = true;
                (ClusterState::Connected, None)
            }
            // An earlier good probe stays valid for its time. A session without one has nothing to keep.
            ProbeResult::Bad(_) if self.was_good && now - self.last_good < PROBE_VALIDITY => {
                return None;
            }
            ProbeResult::Silent(_) if now - self.last_answer < PROBE_VALIDITY => return None,
            ProbeResult::Bad(error) => (ClusterState::ApiUnreachable, Some(error)),
            ProbeResult::Silent(error) | ProbeResult::Down(error) => {
                (ClusterState::Lost, Some(error))
            }
        };
        let reported = Some((state, last_error.as_ref().map(|error| error.code)));
        if self.reported == reported {
            return None;
        }
        self.reported = reported;
        Some(ClusterStatus {
            state,
            since: OffsetDateTime::now_utc(),
            last_error,
            last_seen: None,
            last_good_probe: None,
            hub: None,
        })
    }
}

#[cfg(test)]
mod tests;
