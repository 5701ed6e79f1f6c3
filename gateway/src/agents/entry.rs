//! One session of an agent, as the hub holds it: who is at its other end, what runs on it, and how it is asked to end.

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

/// Streams of a session that requests leave to probes and to what the agent asks.
const OTHER_STREAMS: usize = 32;

/// One session of a cluster.
pub(crate) struct Entry {
    identity: Arc<AgentIdentity>,
    exchanges: Exchanges,
    from: IpAddr,
    opened: OffsetDateTime,
    /// Requests at once.
    most: usize,
    /// Requests whose answers have not ended; closed when no more may come.
    running: TaskTracker,
    standing: Watched<Standing>,
    /// There is something to be told on a probe.
    news: Notify,
    counted: Mutex<Stats>,
    _open: Hold,
}

/// What of a session changes while it lives.
struct Standing {
    /// It is known whose it is, so that it may serve.
    introduced: bool,
    end: Option<CloseReason>,
    good_until: OffsetDateTime,
    silence: Option<Arc<Silence>>,
}

/// Given back when a request has ended.
pub(crate) type Running = TaskTrackerToken;

impl Entry {
    pub(super) fn new(
        session: Session,
        identity: AgentIdentity,
        from: IpAddr,
        metrics: &Metrics,
    ) -> Self {
        Entry {
            most: session.most_streams().saturating_sub(OTHER_STREAMS),
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

    /// Where its connection came from at first.
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
        // The sender lives as long as the session, whose end is told otherwise.
        if self.session().link().wait_for(so).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// What the last probe has found: a silence, or none.
    pub(super) fn set_silence(&self, silence: Option<Silence>) {
        let party = |silence: Option<&Silence>| silence.map(|silence| silence.party);
        let before = self.standing.look(|it| party(it.silence.as_deref()));
        if before != party(silence.as_ref()) {
            let silence = silence.map(Arc::new);
            self.standing.change(|it| it.silence = silence);
        }
    }

    /// Nothing is heard of the agent.
    pub(crate) fn silence_of_agent(&self) -> Option<Arc<Silence>> {
        let silence = self.standing.look(|it| it.silence.clone());
        silence.filter(|silence| silence.party == Party::Agent)
    }

    /// Completes when no answer is to be expected over this session.
    pub(crate) async fn silence(&self) -> Arc<Silence> {
        self.standing.found(|it| it.silence.clone()).await
    }

    /// Completes when this silence is over, or another one has begun.
    pub(crate) async fn is_otherwise(&self, silence: &Arc<Silence>) {
        let other = |it: &Standing| {
            let same = it
                .silence
                .as_ref()
                .is_some_and(|it| Arc::ptr_eq(it, silence));
            (!same).then_some(())
        };
        self.standing.found(other).await;
    }

    /// Completes when a silence is over.
    pub(crate) async fn answers(&self) {
        let silent = |it: &Standing| it.silence.is_none().then_some(());
        self.standing.found(silent).await;
    }

    /// Completes when the agent can be asked: it has a link, and is not silent.
    pub(super) async fn within_reach(&self) {
        loop {
            self.up().await;
            let agent = |it: &Standing| {
                let silence = it.silence.as_ref();
                let is_silent = silence.is_some_and(|silence| silence.party == Party::Agent);
                (!is_silent).then_some(())
            };
            self.standing.found(agent).await;
            if self.session().is_up() {
                return;
            }
        }
    }

    /// The next probe comes at once.
    pub(super) fn has_news(&self) {
        self.news.notify_one();
    }

    /// Completes when there is something to be told on a probe.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    pub(super) fn introduce(&self) {
        self.standing.change(|it| it.introduced = true);
    }

    pub(crate) fn is_introduced(&self) -> bool {
        self.standing.look(|it| it.introduced)
    }

    /// Completes when it is known whose session it is.
    pub(crate) async fn introduced(&self) {
        self.standing.found(|it| it.introduced.then_some(())).await;
    }

    /// Asks the session's task to end it.
    pub(super) fn end(&self, reason: CloseReason) {
        self.standing.change(|it| it.end = Some(reason));
    }

    pub(super) fn is_ending(&self) -> bool {
        self.standing.look(|it| it.end.is_some())
    }

    /// Completes when the session was asked to end for another reason than `before`.
    pub(crate) async fn asked_to_end(&self, before: Option<CloseReason>) -> Option<CloseReason> {
        let other = |it: &Standing| (it.end != before).then_some(it.end);
        self.standing.found(other).await
    }

    /// How many requests run.
    pub(super) fn load(&self) -> usize {
        self.running.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.load() >= self.most
    }

    pub(super) fn token(&self) -> Running {
        self.running.token()
    }

    /// Completes when no request runs and none can come.
    pub(crate) async fn idle(&self) {
        self.running.close();
        self.running.wait().await;
    }

    pub(crate) fn good_until(&self) -> OffsetDateTime {
        self.standing.look(|it| it.good_until)
    }

    /// Completes when the certificate is good for longer than that.
    pub(crate) async fn good_beyond(&self, until: OffsetDateTime) {
        let good = |it: &Standing| (it.good_until > until).then_some(());
        self.standing.found(good).await;
    }

    pub(crate) fn renewed(&self, until: OffsetDateTime) {
        self.standing
            .change(|it| it.good_until = until.max(it.good_until));
    }

    /// Adds to the counters what has happened since the last time. How many streams are open.
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
