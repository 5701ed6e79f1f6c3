//! Dials one hub at a time, in turn. Each failure is one log line with all known details.

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use fairlead_api::{CaPins, Code, Failure, HubUrl, JoinString, hello::LinkIndex};
use fairlead_certs::{
    CLOCK_SLACK, CertsError, adoption_client, outer_client_at_any_time, outer_client_with_evidence,
    session_client,
};
use fairlead_dialer::{DialError, Dialed, Dialer, Limits, MemoryBudget, Redialed, Session};
use rustls::ClientConfig;
use tracing::{info, warn};

use super::diagnosis::{Attempt, FailureReports};
use crate::{
    context::hubs::KnownHubs, identity::Identity, metrics::Metrics, proxy_source::ProxySource,
};

/// Clock difference from which certificates may look expired or not yet valid, in seconds.
const MAX_CLOCK_OFFSET_SECONDS: i64 = 60;
/// Backdating of new certificates, in seconds. A clock that is further behind finds them not valid yet.
const CLOCK_SLACK_SECONDS: i64 = CLOCK_SLACK.whole_seconds();

pub(crate) const CHECK_CA_FILE: &str =
    "Check the path of `--ca-file` (FAIRLEAD_CA_FILE), and that this user may read it.";

/// Dialer of one link; clones dial independently.
#[derive(Clone)]
pub(crate) struct HubDialer {
    pub(crate) join: Option<JoinString>,
    /// Namespace for the Event with the code, if the agent may wait for its adoption.
    adoption: Option<String>,
    /// Hubs from the configuration; override those of the join string and of the identity.
    pub(crate) hubs: Vec<HubUrl>,
    /// Learned hubs, and those that other links use; `None` for a dialer of one hub.
    known: Option<Arc<KnownHubs>>,
    /// Link that uses the dialled hub; `None` for dials of no link.
    link: Option<LinkIndex>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) proxy: ProxySource,
    pub(crate) version: String,
    pub(crate) metrics: Metrics,
    /// Memory budget of all sessions.
    memory_budget: MemoryBudget,
    /// Hub to begin with, unless `next` names one.
    offset: usize,
    next: Option<HubUrl>,
    /// Hubs of parked sessions of this link. They are skipped: a new session there would replace the parked
    /// one.
    parked_hubs: Vec<Weak<HubUrl>>,
    /// Whether to resume only, and never open a new session.
    resumes_only: bool,
    /// Reports of repeated failures; `None` for a doctor, which shows each one.
    reports: Option<Arc<FailureReports>>,
    /// Stages and certificate of the last dial.
    last: Attempt,
}

impl HubDialer {
    pub(crate) fn join(&self) -> Option<&JoinString> {
        self.join.as_ref()
    }

    /// Lets an agent without an identity and a join string announce itself. `namespace`: place of its Event; `None`: it
    /// may not.
    pub(crate) fn wait_for_adoption(&mut self, namespace: Option<String>) {
        self.adoption = namespace;
    }

    /// Namespace for the Event with the code; `None` if the agent may not announce itself.
    pub(crate) fn adoption(&self) -> Option<&str> {
        self.adoption.as_deref()
    }

    /// Dialer of another link, which prefers another hub if there are enough.
    pub(crate) fn for_link(&self, link: LinkIndex) -> Self {
        HubDialer {
            offset: link.index().into(),
            link: Some(link),
            ..self.clone()
        }
    }

    /// Hubs of the configuration, else the known ones.
    fn configured<'a>(&'a self, known: &'a [HubUrl]) -> &'a [HubUrl] {
        if self.hubs.is_empty() {
            known
        } else {
            &self.hubs
        }
    }

    /// Hubs for a dial with an identity: the learned ones, then the configured ones. While another link has a session, the
    /// learned ones suffice.
    fn hubs(&self, identity: &Identity) -> Vec<HubUrl> {
        let configured = self.configured(&identity.hubs);
        let Some(known) = &self.known else {
            return configured.to_vec();
        };
        let mut hubs = known.learned().to_vec();
        if hubs.len() > 1
            && self
                .link
                .is_some_and(|link| known.another_has_session(link))
        {
            return hubs;
        }
        for hub in configured {
            if !hubs.contains(hub) {
                hubs.push(hub.clone());
            }
        }
        hubs
    }

    /// Whether another link uses this hub. Without a list of hubs, addresses of one hub cannot be told apart.
    fn is_used(&self, hub: &HubUrl) -> bool {
        let (Some(known), Some(link)) = (&self.known, self.link) else {
            return false;
        };
        known.learned().len() > 1 && known.is_used_by_another(link, hub)
    }

    /// Dialer for one hub only, which never opens a new session.
    pub(crate) fn only_to(&self, hub: HubUrl) -> Self {
        HubDialer {
            hubs: vec![hub],
            known: None,
            link: None,
            offset: 0,
            next: None,
            parked_hubs: Vec::new(),
            resumes_only: true,
            ..self.clone()
        }
    }

    /// Dialer for one hub only, for a doctor.
    pub(crate) fn for_doctor(&self, hub: HubUrl) -> Self {
        HubDialer {
            resumes_only: false,
            ..self.only_to(hub)
        }
    }

    /// Stages and certificate of the last dial.
    pub(crate) fn last_attempt(&self) -> &Attempt {
        &self.last
    }

    /// Reports a refusal by the hub over a session.
    pub(crate) fn report_refusal(&self, failure: &Failure) {
        let hub = self.last.hub.as_ref();
        if let (Some(reports), Some(hub)) = (&self.reports, hub) {
            reports.refused(hub, "identity", failure);
        }
    }

    /// Skips this hub for new sessions until the parked session ends.
    pub(crate) fn avoid(&mut self, hub: Weak<HubUrl>) {
        self.parked_hubs.retain(|hub| hub.strong_count() > 0);
        self.parked_hubs.push(hub);
    }

    /// Hub to dial next; after a successful dial that hub.
    pub(crate) fn next_hub(&self, identity: &Identity) -> Option<HubUrl> {
        let hubs = self.hubs(identity);
        self.next_of(&hubs).cloned()
    }

    /// Last dialled hub.
    pub(crate) fn dialed_hub(&self) -> Option<HubUrl> {
        self.last.hub.clone()
    }

    /// Place of the first hub in turn.
    fn first_place(&self, hubs: &[HubUrl]) -> usize {
        let next = self.next.as_ref();
        let named = next.and_then(|next| hubs.iter().position(|hub| hub == next));
        named.unwrap_or_else(|| self.offset % hubs.len().max(1))
    }

    /// First hub in turn without a parked session and without another link; the first one without a parked session if all
    /// others are in use; the first in turn if all have parked sessions.
    fn next_of<'a>(&self, hubs: &'a [HubUrl]) -> Option<&'a HubUrl> {
        let is_parked = |hub: &HubUrl| {
            let mut parked_hubs = self.parked_hubs.iter().filter_map(Weak::upgrade);
            parked_hubs.any(|parked_hub| *parked_hub == *hub)
        };
        let (before, after) = hubs.split_at_checked(self.first_place(hubs))?;
        let in_turn = after.iter().chain(before);
        let mut free = in_turn.clone().filter(|hub| !is_parked(hub));
        let unused = free.clone().find(|hub| !self.is_used(hub));
        unused.or_else(|| free.next()).or_else(|| after.first())
    }

    pub(crate) fn has_several_hubs(&self, identity: &Identity) -> bool {
        self.hubs(identity).len() > 1
    }

    /// Moves on to the hub after the next one.
    pub(crate) fn advance(&mut self, identity: &Identity) {
        let hubs = self.hubs(identity);
        self.advance_in(&hubs);
    }

    fn advance_in(&mut self, hubs: &[HubUrl]) {
        let count = hubs.len().max(1);
        let after = hubs.get((self.first_place(hubs) + 1) % count);
        self.next = after.cloned();
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Dials without an identity, for enrolment.
    pub(crate) async fn dial_for_enrolment(
        &mut self,
        join: &JoinString,
    ) -> Result<Dialed, DialError> {
        self.dial_without_identity(&join.hubs, join.ca_pins).await
    }

    /// Dials without an identity, for a hub of these authorities.
    pub(crate) async fn dial_without_identity(
        &mut self,
        hubs: &[HubUrl],
        pins: CaPins,
    ) -> Result<Dialed, DialError> {
        let inner = session_client(pins, None);
        let limits = self.limits_without_resume();
        let hubs = self.configured(hubs).to_vec();
        let dialled = self.dial(&hubs, Some(pins), inner, limits, None).await;
        dialled.and_then(new_session)
    }

    /// Dials without an identity and without a pin, for an adoption: only the outer TLS proves the hub.
    pub(crate) async fn dial_for_adoption(&mut self) -> Result<Dialed, DialError> {
        let limits = self.limits_without_resume();
        let hubs = self.hubs.clone();
        let dialled = self
            .dial(&hubs, None, adoption_client(), limits, None)
            .await;
        dialled.and_then(new_session)
    }

    /// Requests of a session without identity are short, and are repeated after a failure.
    fn limits_without_resume(&self) -> Limits {
        Limits {
            resume_window: Duration::ZERO,
            ..self.limits()
        }
    }

    /// Dials with the identity, for a new session.
    pub(crate) async fn dial_new(&mut self, identity: &Identity) -> Result<Dialed, DialError> {
        let inner = session_client(identity.pins, Some(&identity.leaf));
        let limits = self.limits();
        let hubs = self.hubs(identity);
        let dialled = self
            .dial(&hubs, Some(identity.pins), inner, limits, None)
            .await;
        dialled.and_then(new_session)
    }

    /// Dials with the identity, to resume a session without a link. `home`: hub of the session, in the list of hubs or not.
    pub(crate) async fn redial(
        &mut self,
        identity: &Identity,
        (session, home): (&Session, &HubUrl),
    ) -> Result<Redialed, DialError> {
        let inner = session_client(identity.pins, Some(&identity.leaf));
        let limits = self.limits();
        let pins = Some(identity.pins);
        let mut hubs = self.hubs(identity);
        if !hubs.contains(home) {
            hubs.insert(0, home.clone());
        }
        self.dial(&hubs, pins, inner, limits, Some(session)).await
    }

    fn limits(&self) -> Limits {
        Limits {
            memory: self.memory_budget.clone(),
            ..Limits::default()
        }
    }

    /// Dials the next hub in turn.
    async fn dial(
        &mut self,
        hubs: &[HubUrl],
        pins: Option<CaPins>,
        inner: Result<Arc<ClientConfig>, CertsError>,
        limits: Limits,
        session: Option<&Session>,
    ) -> Result<Redialed, DialError> {
        let Some(hub) = self.next_of(hubs).cloned() else {
            let failure = Failure::because(Code::BadConfig, "no hub is known");
            return Err(DialError::here(failure));
        };
        self.last = Attempt::to(hub.clone());
        self.next = Some(hub.clone());
        self.reserve(Some(hub.clone()));
        let dialled = match self
            .dialer(pins, limits)
            .await
            .and_then(|dialer| Ok((dialer, inner?)))
        {
            Ok((dialer, inner)) => match session {
                Some(session) if self.resumes_only => dialer.resume(&hub, session).await,
                Some(session) => dialer.redial(&hub, inner, session).await,
                None => dialer.dial(&hub, inner).await.map(Redialed::New),
            },
            Err(failure) => Err(DialError::here(failure)),
        };
        match &dialled {
            Ok(redialed) => {
                self.metrics.dialled();
                if let Some(reports) = &self.reports {
                    reports.succeeded(&hub);
                }
                match redialed {
                    Redialed::New(dialed) => self.log_connected(&hub, dialed),
                    Redialed::Resumed { address } => info!(%hub, %address, "session resumed"),
                    Redialed::Unknown { address } => {
                        info!(%hub, %address, "hub no longer has the session");
                    }
                }
            }
            Err(error) => {
                self.advance_in(hubs);
                self.reserve(None);
                self.metrics.dial_failed(error.stage, error.code);
                log_failed(&hub, error);
                if let Some(reports) = &self.reports {
                    reports.failed(&self.last, error);
                }
            }
        }
        dialled
    }

    /// Keeps the other links away from a hub.
    fn reserve(&self, hub: Option<HubUrl>) {
        if let (Some(known), Some(link)) = (&self.known, self.link) {
            known.dials(link, hub);
        }
    }

    /// Built for each dial: CA file and machine's roots may have changed.
    async fn dialer(&mut self, pins: Option<CaPins>, limits: Limits) -> Result<Dialer, Failure> {
        let ca = match &self.ca_file {
            None => None,
            Some(path) => {
                let text = tokio::fs::read_to_string(path).await;
                Some(text.map_err(|error| {
                    let detail = format_args!("{}: {error}", path.display());
                    Failure::because(Code::CannotRead, detail).next(CHECK_CA_FILE)
                })?)
            }
        };
        let proxy = self.proxy.rules().await?;
        let (outer, sent) = outer_client_with_evidence(ca.as_deref(), pins)?;
        self.last.sent = sent;
        Ok(Dialer {
            outer,
            any_time: Some(outer_client_at_any_time(ca.as_deref(), pins)?),
            proxy,
            limits,
            trace: self.last.trace.clone(),
        })
    }
}

impl HubDialer {
    fn log_connected(&self, hub: &HubUrl, dialed: &Dialed) {
        let offset = dialed.clock_offset;
        info!(%hub, address = %dialed.address, clock.offset = offset, "connected to the hub");
        if let Some(seconds) = offset.filter(|seconds| seconds.abs() > MAX_CLOCK_OFFSET_SECONDS) {
            warn!(
                clock.offset = seconds,
                "clocks of this machine and of the hub differ; certificates may look expired"
            );
        }
        if let (Some(reports), Some(Err(failure))) = (&self.reports, offset.map(check_clock)) {
            reports.refused(hub, "clock", &failure);
        }
    }

    pub(crate) fn new(
        join: Option<JoinString>,
        (hubs, known): (Vec<HubUrl>, Option<Arc<KnownHubs>>),
        ca_file: Option<PathBuf>,
        proxy: ProxySource,
        version: String,
        (metrics, memory_budget): (Metrics, MemoryBudget),
        reports: Option<Arc<FailureReports>>,
    ) -> Self {
        HubDialer {
            join,
            adoption: None,
            hubs,
            known,
            link: None,
            ca_file,
            proxy,
            version,
            metrics,
            memory_budget,
            offset: 0,
            next: None,
            parked_hubs: Vec::new(),
            resumes_only: false,
            reports,
            last: Attempt::default(),
        }
    }
}

/// Checks the hub's clock minus the local one, in seconds.
///
/// # Errors
///
/// `FL-3113` beyond the backdating of certificates.
pub(crate) fn check_clock(offset: i64) -> Result<String, Failure> {
    let side = if offset < 0 { "ahead of" } else { "behind" };
    let seconds = offset.unsigned_abs();
    let difference = format!("this machine's clock is {seconds} s {side} the hub's");
    match offset.abs() > CLOCK_SLACK_SECONDS {
        true => Err(Failure::because(Code::DialClock, difference)),
        false => Ok(difference),
    }
}

/// A dial without a session to resume always returns a new one.
fn new_session(redialed: Redialed) -> Result<Dialed, DialError> {
    match redialed {
        Redialed::New(dialed) => Ok(dialed),
        Redialed::Resumed { .. } | Redialed::Unknown { .. } => {
            Err(DialError::here(Failure::new(Code::Internal)))
        }
    }
}

fn log_failed(hub: &HubUrl, error: &DialError) {
    warn!(
        %hub,
        stage = %error.stage,
        address = error.address,
        http.status = error.http_status,
        cause = error.cause,
        code = %error.code,
        next = error.next_step(),
        "dial failed"
    );
}
