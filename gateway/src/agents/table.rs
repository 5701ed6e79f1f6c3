//! Which cluster has which session. The newest that proved itself is in the table; the one it replaced is drained by
//! its own task. Nothing here waits.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use fairlead_api::{ClusterId, Code, Failure, resources::ClusterStatus};
use fairlead_certs::AgentIdentity;
use fairlead_dialer::{CloseReason, Exchanges, LinkState, Session, Stats};
use prometheus::{
    Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use time::OffsetDateTime;
use tokio::sync::watch;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use crate::{
    agents::reports::Reports,
    metrics::{Hold, Metrics},
};

/// Streams of one session, both ways together.
pub(crate) const MAX_STREAMS: usize = 512;
/// Requests at once on one session; the other streams are for probes and for what the agent asks.
const MAX_RUNNING: usize = MAX_STREAMS - 32;

/// One session of a cluster.
pub(crate) struct Entry {
    identity: Arc<AgentIdentity>,
    exchanges: Exchanges,
    /// Requests whose answers have not ended; closed when no more may come.
    running: TaskTracker,
    end: watch::Sender<Option<CloseReason>>,
    good_until: watch::Sender<OffsetDateTime>,
    counted: Mutex<Stats>,
    _open: Hold,
}

/// Given back when a request has ended.
pub(crate) type Running = TaskTrackerToken;

impl Entry {
    pub(crate) fn cluster(&self) -> &ClusterId {
        &self.identity.cluster
    }

    pub(crate) fn identity(&self) -> &Arc<AgentIdentity> {
        &self.identity
    }

    pub(crate) fn exchanges(&self) -> &Exchanges {
        &self.exchanges
    }

    pub(crate) fn session(&self) -> &Session {
        self.exchanges.session()
    }

    /// Completes when the session's link is down.
    pub(crate) async fn down(&self) {
        let mut link = self.session().link();
        // The sender lives as long as the session, whose end is told otherwise.
        if link.wait_for(|link| *link != LinkState::Up).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Asks the session's task to end it.
    fn end(&self, reason: CloseReason) {
        self.end.send_replace(Some(reason));
    }

    /// Completes when the session was replaced.
    pub(crate) async fn replaced(&self) {
        self.ended_by(CloseReason::Replaced).await;
    }

    /// Completes when the cluster was deleted, be it that the session was replaced before.
    pub(crate) async fn deleted(&self) {
        self.ended_by(CloseReason::Deleted).await;
    }

    async fn ended_by(&self, reason: CloseReason) {
        let mut end = self.end.subscribe();
        // The sender is this entry's own, so it is there for as long as somebody waits.
        let _ = end.wait_for(|end| *end == Some(reason)).await;
    }

    /// Completes when no request runs and none can come.
    pub(crate) async fn idle(&self) {
        self.running.close();
        self.running.wait().await;
    }

    pub(crate) fn good_until(&self) -> watch::Receiver<OffsetDateTime> {
        self.good_until.subscribe()
    }

    pub(crate) fn renewed(&self, until: OffsetDateTime) {
        self.good_until.send_if_modified(|good| {
            let later = until > *good;
            *good = until.max(*good);
            later
        });
    }

    /// Adds to the counters what has happened since the last time.
    fn settle(&self, metrics: &Metrics) {
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
        *counted = now;
    }
}

pub(crate) struct Sessions {
    table: Mutex<Table>,
    reports: Reports,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Table {
    /// The one that serves.
    current: HashMap<ClusterId, Arc<Entry>>,
    /// Every one that is open, those that are drained too.
    open: Vec<Arc<Entry>>,
}

impl Table {
    fn is_current(&self, entry: &Arc<Entry>) -> bool {
        self.current
            .get(entry.cluster())
            .is_some_and(|current| Arc::ptr_eq(current, entry))
    }
}

impl Sessions {
    pub(crate) fn new(reports: Reports, metrics: Arc<Metrics>) -> Self {
        Sessions {
            table: Mutex::default(),
            reports,
            metrics,
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reports(&self) -> &Reports {
        &self.reports
    }

    /// How many are open, those that are drained too.
    pub(crate) fn count(&self) -> usize {
        self.table().open.len()
    }

    pub(crate) fn clusters(&self) -> Vec<ClusterId> {
        self.table().current.keys().cloned().collect()
    }

    /// From here on requests go to this session; the one before is asked to end.
    pub(crate) fn enter(&self, session: Session, identity: AgentIdentity) -> Arc<Entry> {
        let entry = Arc::new(Entry {
            exchanges: Exchanges::new(session),
            running: TaskTracker::new(),
            end: watch::Sender::new(None),
            good_until: watch::Sender::new(identity.not_after),
            counted: Mutex::default(),
            identity: Arc::new(identity),
            _open: Hold::of(&self.metrics.sessions),
        });
        let mut table = self.table();
        table.open.push(Arc::clone(&entry));
        let cluster = entry.cluster().clone();
        if let Some(before) = table.current.insert(cluster, Arc::clone(&entry)) {
            before.end(CloseReason::Replaced);
        }
        drop(table);
        entry
    }

    /// The session of a cluster, for one request. Counted under the lock: a session that is replaced at this moment
    /// either has this request to finish, or this request goes to the new one.
    ///
    /// # Errors
    /// `None` without a session, `FL-1403` where so many run that no stream would be left for probes and renewal.
    pub(crate) fn hold(
        &self,
        cluster: &ClusterId,
    ) -> Result<(Arc<Entry>, Running), Option<Failure>> {
        let table = self.table();
        let entry = table.current.get(cluster).ok_or(None)?;
        if entry.running.len() >= MAX_RUNNING {
            return Err(Some(Failure::new(Code::AgentFull)));
        }
        Ok((Arc::clone(entry), entry.running.token()))
    }

    /// Has every session of a deleted cluster ended at once.
    pub(crate) fn delete(&self, cluster: &ClusterId) {
        let mut table = self.table();
        table.current.remove(cluster);
        for entry in &table.open {
            if entry.cluster() == cluster {
                entry.end(CloseReason::Deleted);
            }
        }
    }

    /// How it stands with the cluster, unless another session speaks for it by now.
    pub(crate) fn report(&self, entry: &Arc<Entry>, status: ClusterStatus) {
        let table = self.table();
        if table.is_current(entry) {
            self.reports.put(entry.cluster(), status);
        }
    }

    /// The session has ended. `status` is the cluster's from now on, if this was its session.
    pub(crate) fn leave(&self, entry: &Arc<Entry>, end: &'static str, status: ClusterStatus) {
        entry.settle(&self.metrics);
        self.metrics.sessions_ended.with_label_values(&[end]).inc();
        let mut table = self.table();
        table.open.retain(|open| !Arc::ptr_eq(open, entry));
        if table.is_current(entry) {
            table.current.remove(entry.cluster());
            self.reports.put(entry.cluster(), status);
        }
    }

    fn settle(&self) {
        let entries = self.table().open.clone();
        let mut streams = 0;
        self.metrics.certificates.reset();
        for entry in entries {
            entry.settle(&self.metrics);
            self.metrics
                .certificates
                .with_label_values(&[entry.cluster().as_str()])
                .set(entry.good_until.borrow().unix_timestamp());
            streams += entry.session().stats().streams_open;
        }
        self.metrics
            .streams_open
            .set(i64::try_from(streams).unwrap_or(i64::MAX));
    }
}

/// # Errors
/// `FL-5101` if the registry has metrics of these names already.
pub(crate) fn register(sessions: &Arc<Sessions>, registry: &Registry) -> Result<(), Failure> {
    registry
        .register(Box::new(OnScrape(
            Arc::downgrade(sessions),
            Arc::clone(&sessions.metrics),
        )))
        .map_err(|error| Failure::because(Code::Internal, error))
}

/// Asks the sessions for their figures when somebody asks for the metrics.
struct OnScrape(Weak<Sessions>, Arc<Metrics>);

impl Collector for OnScrape {
    fn desc(&self) -> Vec<&Desc> {
        let OnScrape(_, metrics) = self;
        let mut all = metrics.streams_open.desc();
        all.extend(metrics.streams.desc());
        all.extend(metrics.bytes.desc());
        all.extend(metrics.certificates.desc());
        all
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let OnScrape(sessions, metrics) = self;
        if let Some(sessions) = sessions.upgrade() {
            sessions.settle();
        }
        let mut all = metrics.streams_open.collect();
        all.extend(metrics.streams.collect());
        all.extend(metrics.bytes.collect());
        all.extend(metrics.certificates.collect());
        all
    }
}
