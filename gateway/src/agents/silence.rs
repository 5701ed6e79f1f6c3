//! Silence of an agent or of its API server: requests fail early instead of waiting for an unlikely answer.
//!
//! A broken link is no silence: agents reconnect within seconds, so requests wait for [`LINK_GRACE`]. An agent that
//! answers no probe over a link is silent after [`PROBE_VALIDITY`], when its cluster becomes `Lost`. It is so, too, if that link is given up
//! meanwhile, because nothing was heard over it.

use std::time::Duration;

use fairlead_api::{Code, Failure, moment::timestamp, resources::LastError};
use http::Method;
use time::OffsetDateTime;
use tokio::time::Instant;

use super::health::{PROBE_VALIDITY, ProbeResult};

/// Time without a link after which a session counts as silent.
const LINK_GRACE: Duration = Duration::from_secs(20);
/// Time from an agent's last message to the loss of its link that shows a silence before the loss. Links carry a message every six
/// seconds, and a silent one is given up after 10.5 s.
const SILENT_BREAK: Duration = Duration::from_secs(10);
/// Time for a request to continue over a silent session.
pub(crate) const ANSWER_GRACE: Duration = Duration::from_secs(1);

/// Next step of a request that was sent, and is not known to have had no effect.
pub(crate) const POSSIBLY_DONE: &str = "Check first whether it took effect, because it may have been carried out; then run the command again if needed.";

/// The side that is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SilentParty {
    Agent,
    /// The agent answers, its API server does not.
    ApiServer,
}

#[derive(Debug, Clone)]
pub(crate) struct Silence {
    pub(crate) party: SilentParty,
    pub(crate) since: Instant,
    pub(crate) error: LastError,
}

impl Silence {
    /// The failure of a request without an answer's head; `None`: it keeps waiting.
    ///
    /// A read-only request may fail early. Any other one may have been carried out.
    pub(crate) fn failure_for(&self, read_only: bool) -> Option<Failure> {
        let since = self.since_text();
        let LastError { code, cause } = &self.error;
        match (self.party, read_only) {
            (SilentParty::Agent, true) => Some(self.lost_failure()),
            (SilentParty::Agent, false) => {
                let detail = format_args!(
                    "nothing was heard of it since {since} ({code}: {cause}), and the request may have been carried out"
                );
                Some(Failure::because(Code::Timeout, detail).next(POSSIBLY_DONE))
            }
            (SilentParty::ApiServer, true) => Some(Failure::because(
                Code::ApiTimeout,
                format_args!("none of the agent's probes since {since}: {cause}"),
            )),
            (SilentParty::ApiServer, false) => None,
        }
    }

    /// The agent is silent, and nothing was sent.
    pub(crate) fn lost_failure(&self) -> Failure {
        let LastError { code, cause } = &self.error;
        let since = self.since_text();
        Failure::because(
            Code::Lost,
            format_args!("since {since}, last error {code}: {cause}"),
        )
    }

    fn since_text(&self) -> String {
        timestamp(OffsetDateTime::now_utc() - self.since.elapsed())
    }
}

/// True for a request that changes nothing and may fail early. A CONNECT without an answer has carried no byte.
pub(crate) fn is_read_only(method: &Method, upgrades: bool) -> bool {
    !upgrades
        && matches!(
            *method,
            Method::GET | Method::HEAD | Method::OPTIONS | Method::CONNECT
        )
}

/// Tracks the last answers of agent and API server from probe to probe. Pure: the caller passes the time.
pub(crate) struct SilenceDetector {
    agent: Instant,
    /// `None` until its first answer.
    api_server: Option<Instant>,
    began: Instant,
}

impl SilenceDetector {
    pub(crate) fn new(now: Instant) -> Self {
        SilenceDetector {
            agent: now,
            api_server: None,
            began: now,
        }
    }

    /// The agent was heard then.
    pub(crate) fn heard(&mut self, at: Instant) {
        self.agent = self.agent.max(at);
    }

    /// The API server was ready then.
    pub(crate) fn ready(&mut self, at: Instant) {
        self.heard(at);
        self.api_server = self.api_server.map(|before| before.max(at));
    }

    /// The silence after a probe, if any. `down_since`: loss of the link, if there is none.
    ///
    /// # Errors
    /// [`Unchanged`] if the probe changes nothing.
    pub(crate) fn after(
        &mut self,
        probed: &ProbeResult,
        down_since: Option<Instant>,
        now: Instant,
    ) -> Result<Option<Silence>, Unchanged> {
        let (party, since, bound, error) = match probed {
            ProbeResult::Good => {
                (self.agent, self.api_server) = (now, Some(now));
                return Ok(None);
            }
            ProbeResult::Bad(error) if error.code == Code::ApiTimeout => {
                self.agent = now;
                match self.api_server {
                    Some(since) => (SilentParty::ApiServer, since, PROBE_VALIDITY, error),
                    None => (SilentParty::ApiServer, self.began, Duration::ZERO, error),
                }
            }
            // The agent reports at once that its API server is unreachable.
            ProbeResult::Bad(_) => {
                (self.agent, self.api_server) = (now, Some(now));
                return Ok(None);
            }
            ProbeResult::Silent(error) => (SilentParty::Agent, self.agent, PROBE_VALIDITY, error),
            ProbeResult::Down(error) => match down_since {
                Some(since) if since - self.agent < SILENT_BREAK => {
                    (SilentParty::Agent, since, LINK_GRACE, error)
                }
                // The link broke after a silence, and is given up with it.
                _ => (SilentParty::Agent, self.agent, PROBE_VALIDITY, error),
            },
        };
        if now - since < bound {
            return Err(Unchanged {
                until: since + bound,
            });
        }
        Ok(Some(Silence {
            party,
            since,
            error: error.clone(),
        }))
    }
}

/// Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unchanged {
    /// Begin of the silence if nothing is heard until then.
    pub(crate) until: Instant,
}

#[cfg(test)]
mod tests;
