//! Reports of repeated failures on the path to a hub: once per cause, in the log and as an Event.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fairlead_api::{Code, Failure, HubUrl, checkup::CheckEvidence, moment::timestamp};
use fairlead_certs::SentCertificate;
use fairlead_dialer::{DialError, DialStage, DialTrace};
use tokio::time::Instant;
use tracing::warn;

use super::{enrolment, retry::is_refusal};
use crate::context::{AgentContext, events::AgentEvent};

/// Failed dials in a row before a report.
const REPORTED_FAILURES: u32 = 3;
/// Interval after which the same cause is reported again.
const REPEAT_INTERVAL: Duration = Duration::from_secs(3600);
/// Limit of remembered causes; the oldest is forgotten.
const MAX_CAUSES: usize = 64;
/// Limit of hubs with failures; the oldest is forgotten. A hub may list others and others.
const MAX_HUBS: usize = 64;
const EVENT_REASON: &str = "HubUnreachable";

/// One dial: its hub, its stages, and the certificate of the outer TLS.
#[derive(Clone, Default)]
pub(crate) struct Attempt {
    pub(crate) hub: Option<HubUrl>,
    pub(crate) trace: DialTrace,
    pub(crate) sent: SentCertificate,
}

impl Attempt {
    pub(super) fn to(hub: HubUrl) -> Self {
        Attempt {
            hub: Some(hub),
            ..Attempt::default()
        }
    }

    /// Observations that show the cause of a failure.
    pub(crate) fn evidence(&self, error: &DialError) -> Vec<CheckEvidence> {
        let mut found = Vec::new();
        if let Some(address) = &error.address {
            found.push(CheckEvidence::new("address", address.clone()));
        }
        if let Some(refusal) = &error.refusal {
            found.push(CheckEvidence::new("status", refusal.status));
            for (name, value) in [
                ("Server", &refusal.server),
                ("Via", &refusal.via),
                ("Location", &refusal.location),
            ] {
                found.extend(value.clone().map(|value| CheckEvidence::new(name, value)));
            }
            if !refusal.body.is_empty() {
                found.push(CheckEvidence::new("body", refusal.body.clone()));
            }
        }
        if let Some(facts) = self.sent.facts() {
            let (from, to) = (timestamp(facts.not_before), timestamp(facts.not_after));
            found.extend([
                CheckEvidence::new("issuer", facts.issuer),
                CheckEvidence::new("names", facts.names.join(", ")),
                CheckEvidence::new("validity", format!("{from} to {to}")),
            ]);
        }
        found
    }

    /// Passed stages with their times.
    fn passed(&self) -> String {
        let passed = self.trace.passed_stages();
        let shown = passed
            .iter()
            .map(|it| format!("{} {} ms", it.stage, it.took.as_millis()));
        shown.collect::<Vec<_>>().join(", ")
    }
}

/// Name of the failed stage, as the doctor shows it: a refused certificate is not a fault of the inner TLS.
pub(crate) const fn stage_of(error: &DialError) -> &'static str {
    match error.stage {
        DialStage::Identity | DialStage::Protocol if !matches!(error.code, Code::DialIdentity) => {
            "inner-tls"
        }
        stage => stage.as_str(),
    }
}

/// Failures of all links.
pub(crate) struct FailureReports {
    context: Arc<AgentContext>,
    namespace: String,
    known: Mutex<KnownFailures>,
}

#[derive(Default)]
struct KnownFailures {
    /// Failures in a row, by hub; at most [`MAX_HUBS`].
    counts: Vec<(HubUrl, u32)>,
    reported: Vec<ReportedCause>,
}

struct ReportedCause {
    hub: HubUrl,
    stage: &'static str,
    code: Code,
    at: Instant,
}

impl KnownFailures {
    /// Counts a failure. True if it is to be reported. `is_final`: no further dial can succeed.
    fn note(&mut self, hub: &HubUrl, stage: &'static str, (code, is_final): (Code, bool)) -> bool {
        let now = Instant::now();
        let count = match self.counts.iter_mut().find(|(known, _)| known == hub) {
            Some((_, count)) => count,
            None => {
                if self.counts.len() >= MAX_HUBS {
                    self.counts.remove(0);
                }
                self.counts.push((hub.clone(), 0));
                match self.counts.last_mut() {
                    Some((_, count)) => count,
                    None => return false,
                }
            }
        };
        *count = count.saturating_add(1);
        if *count < REPORTED_FAILURES && !is_final {
            return false;
        }
        self.reported.retain(|it| now - it.at < REPEAT_INTERVAL);
        let is_known = |it: &ReportedCause| it.hub == *hub && it.stage == stage && it.code == code;
        if self.reported.iter().any(is_known) {
            return false;
        }
        if self.reported.len() >= MAX_CAUSES {
            self.reported.remove(0);
        }
        self.reported.push(ReportedCause {
            hub: hub.clone(),
            stage,
            code,
            at: now,
        });
        true
    }

    fn succeeded(&mut self, hub: &HubUrl) {
        self.counts.retain(|(known, _)| known != hub);
    }
}

impl FailureReports {
    /// `namespace`: place of the Events.
    pub(crate) fn new(context: Arc<AgentContext>, namespace: String) -> Arc<Self> {
        Arc::new(FailureReports {
            context,
            namespace,
            known: Mutex::default(),
        })
    }

    pub(super) fn succeeded(&self, hub: &HubUrl) {
        self.known().succeeded(hub);
    }

    /// Notes a failed dial.
    pub(super) fn failed(&self, attempt: &Attempt, error: &DialError) {
        let Some(hub) = &attempt.hub else { return };
        let stage = stage_of(error);
        if !self.is_due(hub, stage, error.code) {
            return;
        }
        let evidence = attempt.evidence(error);
        let evidence: Vec<String> = evidence.iter().map(ToString::to_string).collect();
        self.report(&Report {
            hub,
            stage,
            failure: &Failure::from(error.clone()),
            evidence: evidence.join("; "),
            passed: attempt.passed(),
        });
    }

    /// Notes a refusal by the hub over a session, or a finding about a successful dial.
    pub(super) fn refused(&self, hub: &HubUrl, stage: &'static str, failure: &Failure) {
        if !self.is_due(hub, stage, failure.code) {
            return;
        }
        self.report(&Report {
            hub,
            stage,
            failure,
            evidence: String::new(),
            passed: String::new(),
        });
    }

    fn is_due(&self, hub: &HubUrl, stage: &'static str, code: Code) -> bool {
        let is_final = is_refusal(code) || enrolment::is_final(code) || code == Code::DialClock;
        self.known().note(hub, stage, (code, is_final))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, KnownFailures> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, report: &Report<'_>) {
        let failure = report.failure;
        warn!(
            hub = %report.hub,
            stage = report.stage,
            code = %failure.code,
            cause = failure.cause,
            evidence = report.evidence,
            passed = report.passed,
            next = failure.next_step(),
            "diagnosis of the path to the hub"
        );
        let event = AgentEvent::warning(EVENT_REASON, report.message());
        let (context, namespace) = (self.context.clone(), self.namespace.clone());
        let process = context.process.clone();
        process.clone().spawn(async move {
            tokio::select! {
                () = context.write_event(&namespace, &event) => {}
                () = process.draining() => {}
            }
        });
    }
}

/// A failure with its observations.
struct Report<'a> {
    hub: &'a HubUrl,
    stage: &'static str,
    failure: &'a Failure,
    evidence: String,
    passed: String,
}

impl Report<'_> {
    fn message(&self) -> String {
        let Report {
            hub,
            stage,
            failure,
            ..
        } = self;
        let Failure { code, cause, .. } = failure;
        let next = failure.next_step();
        let mut text = format!("{code} at stage {stage} of {hub}: {cause}. Next: {next}");
        for (name, value) in [("Evidence", &self.evidence), ("Passed", &self.passed)] {
            if !value.is_empty() {
                text.push_str(&format!(" {name}: {value}."));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(name: &str) -> HubUrl {
        format!("https://{name}").parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn third_failure_in_a_row_is_reported_once_per_cause() {
        let mut known = KnownFailures::default();
        let (one, two) = (hub("one.example"), hub("two.example"));
        let dns = (Code::DialDns, false);
        let noted = |known: &mut KnownFailures, hub| known.note(hub, "dns", dns);
        assert_eq!(
            [(); 4].map(|()| noted(&mut known, &one)),
            [false, false, true, false]
        );
        assert!(!noted(&mut known, &two), "hubs are counted apart");
        let other = known.note(&one, "tls", (Code::DialTls, false));
        assert!(other, "another cause is reported at once");
        known.succeeded(&one);
        assert_eq!([(); 3].map(|()| noted(&mut known, &one)), [false; 3]);
        tokio::time::advance(REPEAT_INTERVAL).await;
        assert!(noted(&mut known, &one), "after an hour it is news again");
    }

    #[test]
    fn refusal_for_good_is_reported_at_once() {
        let mut known = KnownFailures::default();
        let spent = (Code::BootstrapSpent, true);
        let noted = [(); 2].map(|()| known.note(&hub("one.example"), "identity", spent));
        assert_eq!(noted, [true, false]);
    }

    #[test]
    fn message_has_stage_code_cause_evidence_and_next_step() {
        let message = Report {
            hub: &hub("one.example"),
            stage: "tls",
            failure: &Failure::with_cause(Code::DialTls, "not trusted").next("Do it."),
            evidence: "issuer: CN=Corp".to_owned(),
            passed: "dns 1 ms, tcp 2 ms".to_owned(),
        }
        .message();
        assert_eq!(
            message,
            "FL-3105 at stage tls of https://one.example: not trusted. Next: Do it. Evidence: issuer: CN=Corp. Passed: dns 1 ms, tcp 2 ms."
        );
    }
}
