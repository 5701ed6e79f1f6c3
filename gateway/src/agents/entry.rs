//! One session of an agent in the session table: its peer, its requests, and the request to end it.

use std::{
    net::IpAddr,
    ops::AddAssign,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fairlead_api::ClusterId;
use fairlead_certs::AgentIdentity;
use fairlead_dialer::{CloseReason, LinkState, Session, Stats, Watched};
use fairlead_exchange::Exchanges;
use fairlead_runtime::workers;
use time::OffsetDateTime;
use tokio::{sync::Notify, time::Instant};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use super::silence::{Silence, SilentParty, Unchanged};
use crate::metrics::{Metrics, SessionState};

/// Streams of a session reserved for probes and for the agent's own requests.
const RESERVED_STREAMS: usize = 32;

/// One session of a cluster.
pub(crate) struct SessionEntry {
    identity: Arc<AgentIdentity>,
    exchanges: Exchanges,
    from: IpAddr,
    opened: OffsetDateTime,
    /// Core that its tasks run on.
    core: usize,
    /// Limit of concurrent requests.
    max_requests: usize,
    /// Requests with unfinished answers; closed when no more may come.
    running: TaskTracker,
    state: Watched<EntryState>,
    /// Wakes the next probe.
    probe_trigger: Notify,
    /// Time of the last probe.
    probed: Mutex<Instant>,
    /// The agent has reported a change since.
    changed: AtomicBool,
    counted: Mutex<Stats>,
    /// Requests that the session got.
    requests: AtomicU64,
}

/// Requests of people, and bytes of sessions from the hub's view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) requests: u64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

impl Traffic {
    /// Traffic since `before`. A smaller number means that the count began anew.
    pub(super) fn since(self, before: Traffic) -> Traffic {
        let part = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        Traffic {
            requests: part(self.requests, before.requests),
            bytes_in: part(self.bytes_in, before.bytes_in),
            bytes_out: part(self.bytes_out, before.bytes_out),
        }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Traffic) {
        self.requests = self.requests.saturating_add(other.requests);
        self.bytes_in = self.bytes_in.saturating_add(other.bytes_in);
        self.bytes_out = self.bytes_out.saturating_add(other.bytes_out);
    }
}

/// State of a session that changes while it lives.
struct EntryState {
    /// The agent has named itself, so the session may serve.
    registered: bool,
    end: Option<CloseReason>,
    valid_until: OffsetDateTime,
    /// The last probe had no answer, or the session has no link.
    unanswered: bool,
    silence: Option<Arc<Silence>>,
}

impl EntryState {
    fn is_doubtful(&self) -> bool {
        self.unanswered || self.silence.is_some()
    }
}

/// Guard of one request on a session.
pub(crate) type Running = TaskTrackerToken;

impl SessionEntry {
    pub(super) fn new(session: Session, identity: AgentIdentity, from: IpAddr) -> Self {
        SessionEntry {
            max_requests: session.max_streams_open().saturating_sub(RESERVED_STREAMS),
            exchanges: Exchanges::new(session),
            from,
            opened: OffsetDateTime::now_utc(),
            core: workers::core(),
            running: TaskTracker::new(),
            state: Watched::new(EntryState {
                registered: false,
                end: None,
                valid_until: identity.not_after,
                unanswered: false,
                silence: None,
            }),
            probe_trigger: Notify::new(),
            probed: Mutex::new(Instant::now()),
            changed: AtomicBool::new(false),
            counted: Mutex::default(),
            requests: AtomicU64::new(0),
            identity: Arc::new(identity),
        }
    }

    pub(crate) fn cluster(&self) -> &ClusterId {
        &self.identity.cluster
    }

    pub(crate) fn identity(&self) -> &Arc<AgentIdentity> {
        &self.identity
    }

    /// Address of the first connection.
    pub(crate) fn from(&self) -> IpAddr {
        self.from
    }

    pub(super) fn opened(&self) -> OffsetDateTime {
        self.opened
    }

    pub(super) fn core(&self) -> usize {
        self.core
    }

    pub(crate) fn exchanges(&self) -> &Exchanges {
        &self.exchanges
    }

    pub(crate) fn session(&self) -> &Session {
        self.exchanges.session()
    }

    /// Completes when the session has a link.
    pub(crate) async fn up(&self) {
        self.link_is(|link| *link == LinkState::Up).await;
    }

    /// Completes when the session's link is down.
    pub(crate) async fn down(&self) {
        self.link_is(|link| *link != LinkState::Up).await;
    }

    async fn link_is(&self, so: impl FnMut(&LinkState) -> bool) {
        // The sender lives as long as the session, and the end of the session is observed elsewhere.
        if self.session().link().wait_for(so).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Notes the last probe: its answer, and the silence that it found or ended.
    pub(super) fn set_probed(&self, answered: bool, silence: Result<Option<Silence>, Unchanged>) {
        let party = |silence: Option<&Silence>| silence.map(|silence| silence.party);
        let before = self
            .state
            .read(|it| (!it.unanswered, party(it.silence.as_deref())));
        let new = silence.ok().filter(|new| party(new.as_ref()) != before.1);
        if before.0 != answered || new.is_some() {
            self.state.update(|it| {
                it.unanswered = !answered;
                if let Some(silence) = new {
                    it.silence = silence.map(Arc::new);
                }
            });
        }
    }

    /// True while an answer is doubtful: without a link, after an unanswered probe, and during a silence.
    pub(super) fn is_doubtful(&self) -> bool {
        !self.session().is_up() || self.state.read(EntryState::is_doubtful)
    }

    /// Completes when an answer is doubtful.
    pub(crate) async fn doubtful(&self) {
        let doubtful = |it: &EntryState| it.is_doubtful().then_some(());
        self.state.wait_for(doubtful).await;
    }

    /// Completes when an answer is expected again.
    pub(crate) async fn trusted(&self) {
        let trusted = |it: &EntryState| (!it.is_doubtful()).then_some(());
        self.state.wait_for(trusted).await;
    }

    /// Wakes the requests that wait for the head of their answer.
    pub(super) fn wake_waiting(&self) {
        if self.load() > 0 {
            self.state.update(|_| {});
        }
    }

    /// The current silence, if any.
    pub(crate) fn silence(&self) -> Option<Arc<Silence>> {
        self.state.read(|it| it.silence.clone())
    }

    /// The current silence of the agent, if any.
    pub(crate) fn silence_of_agent(&self) -> Option<Arc<Silence>> {
        let silence = self.silence();
        silence.filter(|silence| silence.party == SilentParty::Agent)
    }

    /// Completes when the agent is reachable: it has a link and is not silent.
    pub(super) async fn reachable(&self) {
        loop {
            self.up().await;
            let agent = |it: &EntryState| {
                let silence = it.silence.as_ref();
                let is_silent = silence.is_some_and(|silence| silence.party == SilentParty::Agent);
                (!is_silent).then_some(())
            };
            self.state.wait_for(agent).await;
            if self.session().is_up() {
                return;
            }
        }
    }

    /// Triggers a probe at once, which notifies the agent.
    pub(super) fn trigger_probe(&self) {
        self.probe_trigger.notify_one();
    }

    /// Triggers a probe, because the agent has reported that its answer would be another one now.
    pub(super) fn report_change(&self) {
        self.changed.store(true, Ordering::Release);
        self.trigger_probe();
    }

    /// Whether the agent has reported a change since the last call.
    pub(super) fn take_change(&self) -> bool {
        self.changed.swap(false, Ordering::Acquire)
    }

    /// Notes the begin of a probe.
    pub(super) fn set_probe_time(&self, now: Instant) {
        *self.probed.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Triggers a probe of a session in use whose last one is older than `age`.
    pub(super) fn probe_in_use(&self, age: Duration) {
        let is_old = || {
            let probed = self.probed.lock().unwrap_or_else(PoisonError::into_inner);
            probed.elapsed() >= age
        };
        if self.load() > 0 && is_old() {
            self.trigger_probe();
        }
    }

    /// Completes when a probe was triggered.
    pub(super) async fn probe_triggered(&self) {
        self.probe_trigger.notified().await;
    }

    pub(super) fn register(&self) {
        self.state.update(|it| it.registered = true);
    }

    pub(crate) fn is_registered(&self) -> bool {
        self.state.read(|it| it.registered)
    }

    /// Completes when the session is registered.
    pub(crate) async fn registered(&self) {
        self.state.wait_for(|it| it.registered.then_some(())).await;
    }

    /// Requests the session's task to end it.
    pub(super) fn end(&self, reason: CloseReason) {
        self.state.update(|it| it.end = Some(reason));
    }

    pub(super) fn is_ending(&self) -> bool {
        self.state.read(|it| it.end.is_some())
    }

    /// Completes when an end was requested for another reason than `before`.
    pub(crate) async fn end_requested(&self, before: Option<CloseReason>) -> Option<CloseReason> {
        let other = |it: &EntryState| (it.end != before).then_some(it.end);
        self.state.wait_for(other).await
    }

    /// Number of requests that run.
    pub(super) fn load(&self) -> usize {
        self.running.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.load() >= self.max_requests
    }

    pub(super) fn token(&self) -> Running {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.running.token()
    }

    /// Traffic since the session began.
    pub(super) fn traffic(&self) -> Traffic {
        let stats = self.session().stats();
        Traffic {
            requests: self.requests.load(Ordering::Relaxed),
            bytes_in: stats.bytes_in,
            bytes_out: stats.bytes_out,
        }
    }

    /// State for the metrics.
    pub(super) fn session_state(&self) -> SessionState {
        if self.is_ending() {
            SessionState::Ending
        } else if !self.session().is_up() {
            SessionState::Down
        } else if !self.is_registered() {
            SessionState::Unregistered
        } else if self.state.read(EntryState::is_doubtful) {
            SessionState::Silent
        } else {
            SessionState::Up
        }
    }

    /// Completes when no request runs; accepts no more.
    pub(crate) async fn idle(&self) {
        self.running.close();
        self.running.wait().await;
    }

    pub(crate) fn valid_until(&self) -> OffsetDateTime {
        self.state.read(|it| it.valid_until)
    }

    pub(crate) fn extend_validity(&self, until: OffsetDateTime) {
        self.state
            .update(|it| it.valid_until = until.max(it.valid_until));
    }

    /// Adds the traffic since the last call to the counters; returns the number of open streams.
    pub(super) fn update_metrics(&self, metrics: &Metrics) -> usize {
        let now = self.session().stats();
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let add = |label: &str, now: u64, before: u64| {
            metrics
                .traffic
                .bytes
                .with_label_values(&[label])
                .inc_by(now.saturating_sub(before));
        };
        add("in", now.bytes_in, counted.bytes_in);
        add("out", now.bytes_out, counted.bytes_out);
        for (counter, now, before) in [
            (
                &metrics.traffic.streams,
                now.streams_total,
                counted.streams_total,
            ),
            (
                &metrics.traffic.resumptions,
                now.resumptions,
                counted.resumptions,
            ),
            (
                &metrics.traffic.resumed_bytes,
                now.bytes_repeated,
                counted.bytes_repeated,
            ),
        ] {
            counter.inc_by(now.saturating_sub(before));
        }
        let open = now.streams_open;
        *counted = now;
        open
    }
}
