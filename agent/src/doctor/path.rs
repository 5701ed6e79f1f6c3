//! Walk to one hub: the stages of a dial, then identity, clock, and an idle session.

use std::time::Duration;

use fairlead_api::{
    Code, Failure, HubUrl, TenantId,
    checkup::{CheckSection, CheckedStage},
    enroll::{CHECK_PATH, CheckRequest, CheckResponse},
    moment::timestamp,
};
use fairlead_dialer::{CloseReason, DialError, DialStage, Dialed, Session, SessionError};
use fairlead_exchange::Exchanges;
use secrecy::SecretString;
use tokio::time::{Instant, sleep};

use super::{KnownTenant, all_not_tried, identity::Proof};
use crate::{
    hub_request,
    link::{
        diagnosis::stage_of,
        dial::{HubDialer, check_clock},
        retry::failure_code,
    },
};

/// Stages of the path to a hub, in their order.
const STAGES: [&str; 10] = [
    "dns",
    "tcp",
    "proxy",
    "tls",
    "upgrade",
    "link",
    "inner-tls",
    "identity",
    "clock",
    "hold",
];
/// The first of them, which the dial itself passes.
const DIAL_STAGES: usize = 7;
/// Interval of requests during a hold. The hub ends a session without identity after a minute without one.
const HOLD_REQUEST_INTERVAL: Duration = Duration::from_secs(30);
const RAISE_IDLE_TIMEOUT: &str = "Raise the idle timeout of the proxy or load balancer on the path above 20 seconds; it ended a connection that was in use.";

/// Walk to one hub.
pub(super) struct Walk<'a> {
    dialer: HubDialer,
    proof: &'a Proof,
    hold: Option<Duration>,
    stages: Vec<CheckedStage>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(dialer: HubDialer, proof: &'a Proof, hold: Option<Duration>) -> Self {
        Walk {
            dialer,
            proof,
            hold,
            stages: Vec::new(),
        }
    }

    /// Walks until a stage fails. Also returns the tenant of the cluster.
    pub(super) async fn run(mut self, subject: String) -> (CheckSection, KnownTenant) {
        let walked = self.walk().await;
        let done = self.stages.len();
        let rest = STAGES.get(done..).unwrap_or_default();
        self.stages.extend(all_not_tried(rest));
        let section = CheckSection {
            stages: self.stages,
            ..CheckSection::new(subject)
        };
        (section, walked.ok())
    }

    /// `Err` after a stage has failed.
    async fn walk(&mut self) -> Result<TenantId, ()> {
        let since = Instant::now();
        let dialed = match self.dial().await {
            Ok(dialed) => dialed,
            Err(error) => {
                self.dial_failed(&error, since);
                return Err(());
            }
        };
        self.add_passed(STAGES.len());
        let tenant = self.check_identity(&dialed.session).await;
        dialed.session.close(CloseReason::Done);
        let tenant = tenant?;
        self.check_clock(&dialed)?;
        self.check_hold().await?;
        Ok(tenant)
    }

    async fn dial(&mut self) -> Result<Dialed, DialError> {
        match self.proof {
            Proof::Identity(identity) => self.dialer.dial_new(identity).await,
            Proof::Join { join, .. } => self.dialer.dial_for_enrolment(join).await,
            Proof::Adoption | Proof::None => self.dialer.dial_for_adoption().await,
        }
    }

    /// Adds the stages that the dial has passed, before the stage at this index.
    fn add_passed(&mut self, before: usize) {
        let attempt = self.dialer.last_attempt();
        let certificate = attempt.sent.facts().map(|facts| facts.to_string());
        let passed = attempt.trace.passed_stages();
        for (index, stage) in STAGES.into_iter().enumerate().take(before.min(DIAL_STAGES)) {
            let found = passed.iter().find(|it| index_of(it.stage) == index);
            self.stages.push(match found {
                Some(it) if it.stage == DialStage::Tls => {
                    CheckedStage::passed(stage, it.took, certificate.clone().unwrap_or_default())
                }
                Some(it) => CheckedStage::passed(stage, it.took, it.detail.clone()),
                None if stage == "proxy" => CheckedStage::not_needed(stage, ""),
                // The hub has proved itself before it refuses a certificate.
                None if stage == "inner-tls" => CheckedStage::passed(stage, Duration::ZERO, ""),
                None => CheckedStage::not_tried(stage),
            });
        }
    }

    fn dial_failed(&mut self, error: &DialError, since: Instant) {
        let stage = stage_of(error);
        let index = index_of_name(stage);
        let attempt = self.dialer.last_attempt();
        let is_begun = !attempt.trace.passed_stages().is_empty();
        let took = match is_begun {
            true => attempt.trace.present_stage_time(),
            false => since.elapsed(),
        };
        let evidence = attempt.evidence(error);
        self.add_passed(index);
        let failure = Failure::from(error.clone());
        let failed = CheckedStage::failed(stage, took, failure, evidence);
        self.stages.push(failed);
    }

    async fn check_identity(&mut self, session: &Session) -> Result<TenantId, ()> {
        let since = Instant::now();
        let checked = self.request_check(session).await;
        let tenant = checked.as_ref().map(|it| it.tenant.clone()).map_err(drop);
        let outcome = checked.map(|it| {
            let what = match self.proof {
                Proof::Identity(_) => "certificate",
                _ => "join string",
            };
            let CheckResponse {
                cluster,
                hub_version,
                ..
            } = it;
            let until = timestamp(it.expires);
            format!("{what} of {cluster} is valid until {until}; the hub has version {hub_version}")
        });
        self.add("identity", since, outcome);
        tenant
    }

    async fn request_check(&self, session: &Session) -> Result<CheckResponse, Failure> {
        let (token, key) = match self.proof {
            Proof::Identity(_) => (None, None),
            Proof::Join { join, key } => (Some(join.token.clone()), key.clone()),
            Proof::Adoption => {
                let waits = "the agent has no identity yet: a person has to approve it";
                return Err(Failure::because(Code::NotEnrolled, waits));
            }
            Proof::None => return Err(Failure::new(Code::NotEnrolled)),
        };
        let checked = post_check(session, CheckRequest { token, key });
        tokio::select! {
            biased;
            checked = checked => match checked {
                // The reason of the session's end is more precise.
                Err(failure) if failure.code == Code::SessionBroke => Err(ended(session).await.unwrap_or(failure)),
                checked => checked,
            },
            error = session.closed() => Err(end_failure(&error)),
        }
    }

    fn check_clock(&mut self, dialed: &Dialed) -> Result<(), ()> {
        let outcome = match dialed.clock_offset {
            Some(offset) => check_clock(offset),
            None => Ok("the answer of the hub has no date".to_owned()),
        };
        let passed = outcome.as_ref().map(drop).map_err(drop);
        self.add("clock", Instant::now(), outcome);
        passed
    }

    /// Keeps a session without identity open: one with it must serve.
    async fn check_hold(&mut self) -> Result<(), ()> {
        let Some(time) = self.hold else {
            let detail = "set it with --hold 60";
            self.stages.push(CheckedStage::not_needed("hold", detail));
            return Ok(());
        };
        let since = Instant::now();
        let hubs = self.proof.hubs();
        let dialed = match self.proof.pins() {
            Some(pins) => self.dialer.dial_without_identity(hubs, pins).await,
            None => self.dialer.dial_for_adoption().await,
        };
        let outcome = match dialed {
            Ok(dialed) => hold(&dialed.session, time).await,
            Err(error) => Err(error.into()),
        };
        let passed = outcome.as_ref().map(drop).map_err(drop);
        self.add("hold", since, outcome);
        passed
    }

    fn add(&mut self, stage: &'static str, since: Instant, outcome: Result<String, Failure>) {
        let took = since.elapsed();
        self.stages.push(match outcome {
            Ok(detail) => CheckedStage::passed(stage, took, detail),
            Err(failure) => CheckedStage::failed(stage, took, failure, Vec::new()),
        });
    }
}

/// Section of a hub that is not dialled.
pub(super) fn not_tried(hub: &HubUrl) -> CheckSection {
    CheckSection {
        stages: all_not_tried(&STAGES).collect(),
        ..CheckSection::new(hub.to_string())
    }
}

async fn hold(session: &Session, time: Duration) -> Result<String, Failure> {
    let since = Instant::now();
    let requests = async {
        loop {
            sleep(HOLD_REQUEST_INTERVAL).await;
            let empty = CheckRequest {
                token: None,
                key: None,
            };
            // A refusal counts as an answer; the end of the session is another event.
            let _ = post_check(session, empty).await;
        }
    };
    let error = tokio::select! {
        error = session.closed() => error,
        () = requests => return Err(Code::Internal.into()),
        () = sleep(time) => {
            session.close(CloseReason::Done);
            return Ok(format!("an idle session stayed open for {} s", time.as_secs()));
        }
    };
    let (cause, lived) = (end_failure(&error), since.elapsed().as_secs());
    let text = format!("{} after {lived} s", cause.cause);
    let failure = Failure::with_cause(cause.code, text);
    match failure.code {
        Code::SessionBroke => Err(failure.next(RAISE_IDLE_TIMEOUT)),
        _ => Err(failure),
    }
}

async fn post_check(session: &Session, request: CheckRequest) -> Result<CheckResponse, Failure> {
    let json = serde_json::to_string(&request).map_err(|_| Failure::from(Code::Internal))?;
    let json = SecretString::from(json);
    let exchanges = Exchanges::new(session.clone());
    let checked = hub_request::post(&exchanges, CHECK_PATH, json).await;
    checked.map_err(Failure::from)
}

/// Reason of a session's end, if it has ended.
async fn ended(session: &Session) -> Option<Failure> {
    const REASON_DEADLINE: Duration = Duration::from_secs(2);
    let ended = tokio::time::timeout(REASON_DEADLINE, session.closed()).await;
    ended.ok().map(|error| end_failure(&error))
}

fn end_failure(error: &SessionError) -> Failure {
    match failure_code(error) {
        Some(code) => Failure::because(code, error),
        None => Failure::because(Code::Draining, error),
    }
}

/// Index of the stage of a dial among [`STAGES`].
fn index_of(stage: DialStage) -> usize {
    index_of_name(match stage {
        DialStage::Identity | DialStage::Protocol => "inner-tls",
        other => other.as_str(),
    })
}

fn index_of_name(name: &str) -> usize {
    STAGES.iter().position(|stage| *stage == name).unwrap_or(0)
}
