//! Which cluster has which sessions: several agents of it, and several links of each. A request goes to the best of them
//! (`choice`), and the cluster stands as well as the best of them does. A session whose place was taken is drained by its
//! own task. Nothing here waits.

use std::{
    collections::{HashMap, hash_map::Entry as Place},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fairlead_api::{
    ClusterId, Code, Failure,
    resources::{AgentSession, ClusterStatus, LastError},
};
use fairlead_certs::AgentIdentity;
use fairlead_dialer::{CloseReason, Session};
use time::OffsetDateTime;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use crate::{
    agents::{
        arrivals::Arrivals,
        entry::{Entry, Running},
        group::{Down, Group, Introduction, lost},
        health::Probed,
        reports::Reports,
    },
    metrics::Metrics,
    seam::Presence,
};

pub(crate) struct Sessions {
    table: Mutex<Table>,
    reports: Reports,
    metrics: Arc<Metrics>,
    /// The last one has ended.
    left: Notify,
}

#[derive(Default)]
struct Table {
    /// Those that serve.
    groups: HashMap<ClusterId, Group>,
    /// Every one that is open: those that are not introduced yet and those that are drained, too.
    open: Vec<Arc<Entry>>,
    /// Without a session, and somebody waits for one.
    awaited: HashMap<ClusterId, watch::Sender<()>>,
    /// How often a session was chosen.
    turns: u64,
    arrivals: Arrivals,
}

/// What there is for a request.
pub(crate) enum Held {
    Up(Arc<Entry>, Running),
    /// Every link is down, or its agent silent.
    Down(Down),
    /// There is no session.
    Absent(Arrival),
}

impl Presence for Sessions {
    fn sessions(&self, cluster: &ClusterId) -> Vec<AgentSession> {
        let table = self.table();
        let group = table.groups.get(cluster);
        group.map(Group::sessions).unwrap_or_default()
    }
}

/// Waits for a cluster's first session.
pub(crate) struct Arrival(watch::Receiver<()>);

impl Arrival {
    /// Completes when there is one.
    pub(crate) async fn over(mut self) {
        // Its sender goes when the session comes.
        while self.0.changed().await.is_ok() {}
    }
}

impl Table {
    fn arrival(&mut self, cluster: &ClusterId) -> Arrival {
        // Nobody is left to wait for some of them; there are never more than requests that wait.
        self.awaited
            .retain(|_, waiting| waiting.receiver_count() > 0);
        let waiting = self.awaited.entry(cluster.clone()).or_default();
        Arrival(waiting.subscribe())
    }
}

impl Sessions {
    pub(crate) fn new(reports: Reports, metrics: Arc<Metrics>) -> Self {
        Sessions {
            table: Mutex::default(),
            reports,
            metrics,
            left: Notify::new(),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reports(&self) -> &Reports {
        &self.reports
    }

    /// How many are open, those that do not serve too.
    pub(crate) fn count(&self) -> usize {
        self.table().open.len()
    }

    /// Completes when none is open.
    pub(crate) async fn none(&self) {
        loop {
            let left = self.left.notified();
            if self.count() == 0 {
                return;
            }
            left.await;
        }
    }

    /// Of the agents whose sessions are open.
    pub(crate) fn identities(&self) -> Vec<Arc<AgentIdentity>> {
        let table = self.table();
        let open = table.open.iter();
        open.map(|entry| Arc::clone(entry.identity())).collect()
    }

    /// A session that serves nobody yet.
    pub(crate) fn open(
        &self,
        session: Session,
        identity: AgentIdentity,
        from: IpAddr,
    ) -> Arc<Entry> {
        let entry = Arc::new(Entry::new(session, identity, from, &self.metrics));
        self.table().open.push(Arc::clone(&entry));
        entry
    }

    /// Whether this many sessions begin just now that what can wait should.
    pub(super) fn in_a_crowd(&self) -> bool {
        self.table().arrivals.one(Instant::now())
    }

    /// From here on requests may go to this session; the one of the same name is asked to end. Said again, it says what is
    /// known by now.
    ///
    /// # Errors
    /// `FL-1304` if it had another name before; `FL-1406` if it is about to end.
    pub(crate) fn introduce(
        &self,
        entry: &Arc<Entry>,
        introduction: Introduction,
    ) -> Result<(), Failure> {
        let mut table = self.table();
        if entry.is_ending() {
            return Err(Code::Draining.into());
        }
        let group = table.groups.entry(entry.cluster().clone()).or_default();
        let seated = group.seat(entry, introduction);
        group.tell(entry.cluster(), &self.reports);
        table.awaited.remove(entry.cluster());
        seated?;
        entry.introduce();
        Ok(())
    }

    /// The session's agent is where it does not belong: it serves nobody from here on.
    pub(crate) fn refuse(&self, entry: &Arc<Entry>, why: &Failure) {
        let Failure { code, cause, .. } = why.clone();
        let mut table = self.table();
        self.unseat(&mut table, entry, lost(LastError { code, cause }));
        entry.end(CloseReason::Cloned);
    }

    /// `status` is the cluster's from now on, if this was its last session that served.
    fn unseat(&self, table: &mut Table, entry: &Arc<Entry>, status: ClusterStatus) {
        let Place::Occupied(mut group) = table.groups.entry(entry.cluster().clone()) else {
            return;
        };
        if !group.get_mut().unseat(entry) {
            return;
        }
        if group.get().is_empty() {
            let status = group.remove().obituary(status);
            self.reports.put(entry.cluster(), status);
        } else {
            group.get_mut().tell(entry.cluster(), &self.reports);
        }
    }

    /// The best session of a cluster, for one request. Counted under the lock: a session that is replaced at this moment
    /// either has this request to finish, or this request goes to another one.
    ///
    /// # Errors
    /// `FL-1403` where so many requests run on each that no stream would be left for probes and renewal.
    pub(crate) fn hold(&self, cluster: &ClusterId) -> Result<Held, Failure> {
        let mut table = self.table();
        table.turns += 1;
        let turn = table.turns;
        let group = table.groups.get_mut(cluster);
        let chosen = group.and_then(|group| Some((group.choose(turn)?, group)));
        let Some((entry, group)) = chosen else {
            return Ok(Held::Absent(table.arrival(cluster)));
        };
        if !entry.session().is_up() || entry.silence_of_agent().is_some() {
            return Ok(Held::Down(group.wait()));
        }
        if entry.is_full() {
            return Err(Code::AgentFull.into());
        }
        let running = entry.token();
        Ok(Held::Up(entry, running))
    }

    /// Has every session of a cluster ended at once that was deleted, or is another tenant's: then it stays, and stands like
    /// this.
    pub(crate) fn part(&self, cluster: &ClusterId, stays: Option<ClusterStatus>) {
        let mut table = self.table();
        let group = table.groups.remove(cluster);
        if let (Some(group), Some(status)) = (group, stays) {
            self.reports.put(cluster, group.obituary(status));
        }
        for entry in &table.open {
            if entry.cluster() == cluster {
                entry.end(CloseReason::Deleted);
            }
        }
    }

    /// There is something to be told to a cluster's agents.
    pub(crate) fn has_news(&self, cluster: &ClusterId) {
        if let Some(group) = self.table().groups.get(cluster) {
            group.has_news();
        }
    }

    /// What a probe over the session has found, and how far it is.
    pub(crate) fn probed(&self, entry: &Arc<Entry>, probed: &Probed, rtt: Option<Duration>) {
        if let Some(group) = self.table().groups.get_mut(entry.cluster()) {
            group.probed(entry, probed, rtt);
            group.tell(entry.cluster(), &self.reports);
        }
    }

    /// How it stands with the cluster as this session sees it, if it serves.
    pub(crate) fn report(&self, entry: &Arc<Entry>, status: ClusterStatus) {
        if let Some(group) = self.table().groups.get_mut(entry.cluster()) {
            group.report(entry, status);
            group.tell(entry.cluster(), &self.reports);
        }
    }

    /// The session has ended. `status` is the cluster's from now on, if this was its last.
    pub(crate) fn leave(&self, entry: &Arc<Entry>, end: &'static str, status: ClusterStatus) {
        entry.settle(&self.metrics);
        self.metrics.sessions_ended.with_label_values(&[end]).inc();
        let mut table = self.table();
        table.open.retain(|open| !Arc::ptr_eq(open, entry));
        if table.open.is_empty() {
            self.left.notify_waiters();
        }
        self.unseat(&mut table, entry, status);
    }

    /// Brings the metrics up to date. When the first certificate of each cluster's agents expires.
    pub(super) fn settle(&self) -> HashMap<ClusterId, OffsetDateTime> {
        let entries = self.table().open.clone();
        let mut streams = 0;
        let mut expiries = HashMap::new();
        for entry in &entries {
            streams += entry.settle(&self.metrics);
            let expiry = entry.good_until();
            let first = expiries.entry(entry.cluster().clone()).or_insert(expiry);
            *first = expiry.min(*first);
        }
        self.metrics
            .streams_open
            .set(i64::try_from(streams).unwrap_or(i64::MAX));
        expiries
    }
}
