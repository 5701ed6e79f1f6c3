//! The session table: the sessions of each cluster, from several agents with several links each.
//!
//! A request goes to the best session (`choice`), and the status of a cluster is that of its best session. A replaced
//! session is drained by its own task. Nothing here waits.

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
    /// Notified when the last session has ended.
    left: Notify,
}

#[derive(Default)]
struct Table {
    /// Registered sessions.
    groups: HashMap<ClusterId, Group>,
    /// All open sessions, those not registered yet and draining ones included.
    open: Vec<Arc<Entry>>,
    /// Clusters without a session that requests wait for.
    awaited: HashMap<ClusterId, watch::Sender<()>>,
    /// Number of choices so far.
    turns: u64,
    arrivals: Arrivals,
}

/// Result of acquiring a session.
pub(crate) enum Held {
    Up(Arc<Entry>, Running),
    /// All links are down, or all agents silent.
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
        // The sender is dropped when the session comes.
        while self.0.changed().await.is_ok() {}
    }
}

impl Table {
    fn arrival(&mut self, cluster: &ClusterId) -> Arrival {
        // Removes entries without a waiter; there are never more entries than waiting requests.
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

    /// Number of open sessions, those that do not serve included.
    pub(crate) fn count(&self) -> usize {
        self.table().open.len()
    }

    /// Completes when no session is open.
    pub(crate) async fn none(&self) {
        loop {
            let left = self.left.notified();
            if self.count() == 0 {
                return;
            }
            left.await;
        }
    }

    /// Identities of the agents with open sessions.
    pub(crate) fn identities(&self) -> Vec<Arc<AgentIdentity>> {
        let table = self.table();
        let open = table.open.iter();
        open.map(|entry| Arc::clone(entry.identity())).collect()
    }

    /// Adds a session that is not registered yet.
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

    /// Counts a new session; true in a burst, when deferrable work should wait.
    pub(super) fn in_a_crowd(&self) -> bool {
        self.table().arrivals.one(Instant::now())
    }

    /// Registers a session: requests may go to it, and the session of the same name is requested to end. A second call
    /// updates the identity.
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

    /// Evicts the session of a clone, which then serves nothing.
    pub(crate) fn refuse(&self, entry: &Arc<Entry>, why: &Failure) {
        let Failure { code, cause, .. } = why.clone();
        let mut table = self.table();
        self.unseat(&mut table, entry, lost(LastError { code, cause }));
        entry.end(CloseReason::Cloned);
    }

    /// Removes a session from its cluster. `status` becomes the cluster's, if this was its last registered session.
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

    /// Acquires the best session of a cluster for one request.
    ///
    /// The request is counted under the lock: a session that is replaced at this moment either finishes it or does not
    /// get it.
    ///
    /// # Errors
    /// `FL-1403` if all sessions have so many requests that only the streams for probes and renewal are left.
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

    /// Ends all sessions of a deleted or moved cluster at once. `stays`: the status of a moved cluster.
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

    /// Notifies a cluster's agents by an immediate probe.
    pub(crate) fn has_news(&self, cluster: &ClusterId) {
        if let Some(group) = self.table().groups.get(cluster) {
            group.has_news();
        }
    }

    /// Notes the result of a probe over the session, and its round trip.
    pub(crate) fn probed(&self, entry: &Arc<Entry>, probed: &Probed, rtt: Option<Duration>) {
        if let Some(group) = self.table().groups.get_mut(entry.cluster()) {
            group.probed(entry, probed, rtt);
            group.tell(entry.cluster(), &self.reports);
        }
    }

    /// Notes the status of the cluster as this session observes it.
    pub(crate) fn report(&self, entry: &Arc<Entry>, status: ClusterStatus) {
        if let Some(group) = self.table().groups.get_mut(entry.cluster()) {
            group.report(entry, status);
            group.tell(entry.cluster(), &self.reports);
        }
    }

    /// Removes a session that has ended. `status` becomes the cluster's, if this was its last one.
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

    /// Updates the metrics; returns the first expiry of a certificate per cluster.
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
