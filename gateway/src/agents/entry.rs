//! One session of an agent in the session table: its peer, its requests, and the request to end it.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use fairlead_api::ClusterId;
use fairlead_certs::AgentIdentity;
use fairlead_dialer::{CloseReason, Exchanges, LinkState, Session, Stats, Watched};
use fairlead_runtime::gauges::Hold;
use time::OffsetDateTime;
use tokio::sync::Notify;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use super::silence::{Party, Silence};
use crate::metrics::Metrics;

/// Streams of a session reserved for probes and for the agent's own requests.
const OTHER_STREAMS: usize = 32;

/// One session of a cluster.
pub(crate) struct Entry {
    identity: Arc<AgentIdentity>,
    exchanges: Exchanges,
    from: IpAddr,
    opened: OffsetDateTime,
    /// Limit of concurrent requests.
    most: usize,
    /// Requests with unfinished answers; closed when no more may come.
    running: TaskTracker,
    standing: Watched<Standing>,
    /// Wakes the next probe.
    news: Notify,
    counted: Mutex<Stats>,
    _open: Hold,
}

/// State of a session that changes while it lives.
struct Standing {
    /// The agent has named itself, so the session may serve.
    introduced: bool,
    end: Option<CloseReason>,
    good_until: OffsetDateTime,
    silence: Option<Arc<Silence>>,
}

/// Guard of one request on a session.
pub(crate) type Running = TaskTrackerToken;

impl Entry {
    pub(super) fn new(
        session: Session,
        identity: AgentIdentity,
        from: IpAddr,
        metrics: &Metrics,
    ) -> Self {
        Entry {
            most: session.max_streams_open().saturating_sub(OTHER_STREAMS),
            exchanges: Exchanges::new(session),
            from,
            opened: OffsetDateTime::now_utc(),
            running: TaskTracker::new(),
            standing: Watched::new(Standing {
                introduced: false,
                end: None,
                good_until: identity.not_after,
                silence: None,
            }),
            news: Notify::new(),
            counted: Mutex::default(),
            identity: Arc::new(identity),
            _open: Hold::of(&metrics.sessions),
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

    /// Sets the silence that the last probe found, or ends it.
    pub(super) fn set_silence(&self, silence: Option<Silence>) {
        let party = |silence: Option<&Silence>| silence.map(|silence| silence.party);
        let before = self.standing.read(|it| party(it.silence.as_deref()));
        if before != party(silence.as_ref()) {
            let silence = silence.map(Arc::new);
            self.standing.update(|it| it.silence = silence);
        }
    }

    /// The current silence of the agent, if any.
    pub(crate) fn silence_of_agent(&self) -> Option<Arc<Silence>> {
        let silence = self.standing.read(|it| it.silence.clone());
        silence.filter(|silence| silence.party == Party::Agent)
    }

    /// Completes when an answer over this session is no longer expected.
    pub(crate) async fn silence(&self) -> Arc<Silence> {
        self.standing.wait_for(|it| it.silence.clone()).await
    }

    /// Completes when this silence has ended, or another one has begun.
    pub(crate) async fn is_otherwise(&self, silence: &Arc<Silence>) {
        let other = |it: &Standing| {
            let same = it
                .silence
                .as_ref()
                .is_some_and(|it| Arc::ptr_eq(it, silence));
            (!same).then_some(())
        };
        self.standing.wait_for(other).await;
    }

    /// Completes when there is no silence.
    pub(crate) async fn answers(&self) {
        let silent = |it: &Standing| it.silence.is_none().then_some(());
        self.standing.wait_for(silent).await;
    }

    /// Completes when the agent is reachable: it has a link and is not silent.
    pub(super) async fn within_reach(&self) {
        loop {
            self.up().await;
            let agent = |it: &Standing| {
                let silence = it.silence.as_ref();
                let is_silent = silence.is_some_and(|silence| silence.party == Party::Agent);
                (!is_silent).then_some(())
            };
            self.standing.wait_for(agent).await;
            if self.session().is_up() {
                return;
            }
        }
    }

    /// Triggers a probe at once, which notifies the agent.
    pub(super) fn has_news(&self) {
        self.news.notify_one();
    }

    /// Completes when a probe was triggered.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    pub(super) fn introduce(&self) {
        self.standing.update(|it| it.introduced = true);
    }

    pub(crate) fn is_introduced(&self) -> bool {
        self.standing.read(|it| it.introduced)
    }

    /// Completes when the session is registered.
    pub(crate) async fn introduced(&self) {
        self.standing
            .wait_for(|it| it.introduced.then_some(()))
            .await;
    }

    /// Requests the session's task to end it.
    pub(super) fn end(&self, reason: CloseReason) {
        self.standing.update(|it| it.end = Some(reason));
    }

    pub(super) fn is_ending(&self) -> bool {
        self.standing.read(|it| it.end.is_some())
    }

    /// Completes when an end was requested for another reason than `before`.
    pub(crate) async fn asked_to_end(&self, before: Option<CloseReason>) -> Option<CloseReason> {
        let other = |it: &Standing| (it.end != before).then_some(it.end);
        self.standing.wait_for(other).await
    }

    /// Number of requests that run.
    pub(super) fn load(&self) -> usize {
        self.running.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.load() >= self.most
    }

    pub(super) fn token(&self) -> Running {
        self.running.token()
    }

    /// Completes when no request runs; accepts no more.
    pub(crate) async fn idle(&self) {
        self.running.close();
        self.running.wait().await;
    }

    pub(crate) fn good_until(&self) -> OffsetDateTime {
        self.standing.read(|it| it.good_until)
    }

    /// Completes when the certificate is valid for longer than `until`.
    pub(crate) async fn good_beyond(&self, until: OffsetDateTime) {
        let good = |it: &Standing| (it.good_until > until).then_some(());
        self.standing.wait_for(good).await;
    }

    pub(crate) fn renewed(&self, until: OffsetDateTime) {
        self.standing
            .update(|it| it.good_until = until.max(it.good_until));
    }

    /// Adds the traffic since the last call to the counters; returns the number of open streams.
    pub(super) fn settle(&self, metrics: &Metrics) -> usize {
        let now = self.session().stats();
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let add = |label: &str, now: u64, before: u64| {
            metrics
                .bytes
                .with_label_values(&[label])
                .inc_by(now.saturating_sub(before));
        };
        add("in", now.bytes_in, counted.bytes_in);
        add("out", now.bytes_out, counted.bytes_out);
        metrics
            .streams
            .inc_by(now.streams_total.saturating_sub(counted.streams_total));
        let open = now.streams_open;
        *counted = now;
        open
    }
}
