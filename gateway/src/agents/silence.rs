//! Silence of an agent or of its API server: requests fail early instead of waiting for an unlikely answer.
//!
//! A broken link is no silence: agents reconnect within seconds, so requests wait for [`LINK_GRACE`]. An agent that
//! answers no probe over a link is silent after [`PROBE_VALIDITY`], when its cluster becomes `Lost`.

use std::time::Duration;

use fairlead_api::{Code, Failure, moment::timestamp, resources::LastError};
use http::Method;
use time::OffsetDateTime;
use tokio::time::Instant;

use super::health::{GOOD_FOR, Probed};

/// Time without a link after which a session counts as silent.
pub(crate) const LINK_GRACE: Duration = Duration::from_secs(20);
/// Time for a request to continue over a silent session.
pub(crate) const ANSWER_GRACE: Duration = Duration::from_secs(1);

/// The side that is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Party {
    Agent,
    /// The agent answers, its API server does not.
    ApiServer,
}

#[derive(Debug, Clone)]
pub(crate) struct Silence {
    pub(crate) party: Party,
    pub(crate) since: Instant,
    pub(crate) error: LastError,
}

impl Silence {
    /// The failure of a request without an answer's head; `None`: it keeps waiting.
    ///
    /// A read-only request may fail early. Any other one may have been carried out.
    pub(crate) fn gives_up(&self, reads: bool) -> Option<Failure> {
        let since = self.since_text();
        let LastError { code, cause } = &self.error;
        match (self.party, reads) {
            (Party::Agent, true) => Some(self.lost()),
            (Party::Agent, false) => Some(Failure::because(
                Code::Timeout,
                format_args!(
                    "nothing was heard of it since {since} ({code}: {cause}), and the request may have been carried out"
                ),
            )),
            (Party::ApiServer, true) => Some(Failure::because(
                Code::ApiTimeout,
                format_args!("none of the agent's probes since {since}: {cause}"),
            )),
            (Party::ApiServer, false) => None,
        }
    }

    /// The agent is silent, and nothing was sent.
    pub(crate) fn lost(&self) -> Failure {
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

/// True for a request that changes nothing and may fail early.
pub(crate) fn reads(method: &Method, upgrades: bool) -> bool {
    !upgrades && matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Tracks the last answers of agent and API server from probe to probe. Pure: the caller passes the time.
pub(crate) struct Listener {
    agent: Instant,
    /// `None` until its first answer.
    api_server: Option<Instant>,
    began: Instant,
}

impl Listener {
    pub(crate) fn new(now: Instant) -> Self {
        Listener {
            agent: now,
            api_server: None,
            began: now,
        }
    }

    /// The silence after a probe, if any. `down_since`: loss of the link, if there is none.
    ///
    /// # Errors
    /// [`Unchanged`] if the probe changes nothing.
    pub(crate) fn after(
        &mut self,
        probed: &Probed,
        down_since: Option<Instant>,
        now: Instant,
    ) -> Result<Option<Silence>, Unchanged> {
        let (party, since, bound, error) = match probed {
            Probed::Good => {
                (self.agent, self.api_server) = (now, Some(now));
                return Ok(None);
            }
            Probed::Bad(error) if error.code == Code::ApiTimeout => {
                self.agent = now;
                match self.api_server {
                    Some(since) => (Party::ApiServer, since, GOOD_FOR, error),
                    None => (Party::ApiServer, self.began, Duration::ZERO, error),
                }
            }
            // The agent reports at once that its API server is unreachable.
            Probed::Bad(_) => {
                (self.agent, self.api_server) = (now, Some(now));
                return Ok(None);
            }
            Probed::Silent(error) => (Party::Agent, self.agent, GOOD_FOR, error),
            Probed::Down(error) => {
                let since = down_since.unwrap_or(self.agent);
                (Party::Agent, since, LINK_GRACE, error)
            }
        };
        if now - since < bound {
            return Err(Unchanged);
        }
        Ok(Some(Silence {
            party,
            since,
            error: error.clone(),
        }))
    }
}

pub(crate) struct Unchanged;

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: Code) -> LastError {
        LastError {
            code,
            cause: "x".to_owned(),
        }
    }

    /// The silent side after each probe; `None`: unchanged. Probes are pairs of a second and a result.
    fn hear(probes: &[(u64, Probed)]) -> Vec<Option<Option<Party>>> {
        let start = Instant::now();
        let mut listener = Listener::new(start);
        let after = probes.iter().map(|(second, probed)| {
            let silence = listener.after(probed, Some(start), start + Duration::from_secs(*second));
            silence.ok().map(|it| it.map(|it| it.party))
        });
        after.collect()
    }

    #[test]
    fn agent_is_silent_fifteen_seconds_after_its_last_answer() {
        let silent = || Probed::Silent(error(Code::Timeout));
        let heard = hear(&[
            (0, Probed::Good),
            (5, Probed::Bad(error(Code::ApiUnreachable))),
            (15, silent()),
            (20, silent()),
            (21, Probed::Good),
            (30, silent()),
        ]);
        let expected = [
            Some(None),
            Some(None),
            None,
            Some(Some(Party::Agent)),
            Some(None),
            None,
        ];
        assert_eq!(heard, expected);
    }

    #[test]
    fn broken_link_is_no_silence_for_twenty_seconds() {
        let down = || Probed::Down(error(Code::SessionBroke));
        let heard = hear(&[(0, down()), (19, down()), (20, down())]);
        assert_eq!(heard, [None, None, Some(Some(Party::Agent))]);
    }

    #[test]
    fn api_server_is_silent_where_the_agent_says_that_it_does_not_answer() {
        let late = || Probed::Bad(error(Code::ApiTimeout));
        let heard = hear(&[
            (1, late()),
            (5, Probed::Good),
            (19, late()),
            (20, late()),
            (25, Probed::Bad(error(Code::ApiUnreachable))),
            (30, late()),
        ]);
        let api_server = Some(Some(Party::ApiServer));
        assert_eq!(
            heard,
            [api_server, Some(None), None, api_server, Some(None), None]
        );
    }

    #[test]
    fn what_may_have_been_carried_out_is_not_told_as_lost() {
        let silence = |party| Silence {
            party,
            since: Instant::now(),
            error: error(Code::Timeout),
        };
        let code = |party, reads| silence(party).gives_up(reads).map(|failure| failure.code);
        assert_eq!(code(Party::Agent, true), Some(Code::Lost));
        assert_eq!(code(Party::Agent, false), Some(Code::Timeout));
        assert_eq!(code(Party::ApiServer, true), Some(Code::ApiTimeout));
        assert_eq!(code(Party::ApiServer, false), None);
        for (method, upgrades, only_reads) in [
            (Method::GET, false, true),
            (Method::HEAD, false, true),
            (Method::GET, true, false),
            (Method::POST, false, false),
            (Method::DELETE, false, false),
        ] {
            assert_eq!(reads(&method, upgrades), only_reads, "{method} {upgrades}");
        }
    }
}
