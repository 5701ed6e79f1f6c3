//! The session table: the sessions of each cluster, from several agents with several links each.
//!
//! A request goes to the best session (`choice`), and the status of a cluster is that of its best session. A replaced
//! session is drained by its own task. Nothing here waits.

use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry as MapEntry},
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
use fairlead_seam::SessionActivity;
use time::OffsetDateTime;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use crate::{
    agents::{
        connection_burst::ConnectionBurst,
        entry::{Running, SessionEntry},
        group::{ClusterActivity, ClusterSessions, DownSessions, SessionIdentity, lost_status},
        health::ProbeResult,
        status_queue::StatusQueue,
    },
    metrics::{Metrics, SessionState},
};

pub(crate) struct SessionTable {
    table: Mutex<Table>,
    status_queue: StatusQueue,
    metrics: Arc<Metrics>,
    /// Notified when the last session has ended.
    ended: Notify,
}

#[derive(Default)]
struct Table {
    /// Registered sessions. Boxed: up to half of the slots of the table are empty.
    groups: HashMap<ClusterId, Box<ClusterSessions>>,
    /// All open sessions, those not registered yet and draining ones included.
    open: Vec<Arc<SessionEntry>>,
    /// Clusters without a session that requests wait for.
    awaited: HashMap<ClusterId, watch::Sender<()>>,
    /// Number of choices so far.
    turns: u64,
    burst: ConnectionBurst,
}

/// Result of acquiring a session.
pub(crate) enum Acquired {
    Up(Arc<SessionEntry>, Running),
    /// All links are down, or all agents silent.
    Down(DownSessions),
    /// There is no session.
    Absent(FirstSession),
}

/// Waits for a cluster's first session.
pub(crate) struct FirstSession(watch::Receiver<()>);

impl FirstSession {
    /// Completes when there is one.
    pub(crate) async fn wait(mut self) {
        // The sender is dropped when the session comes.
        while self.0.changed().await.is_ok() {}
    }
}

impl Table {
    fn first_session(&mut self, cluster: &ClusterId) -> FirstSession {
        // Removes entries without a waiter; there are never more entries than waiting requests.
        self.awaited
            .retain(|_, waiting| waiting.receiver_count() > 0);
        let waiting = self.awaited.entry(cluster.clone()).or_default();
        FirstSession(waiting.subscribe())
    }
}

impl SessionTable {
    pub(crate) fn new(status_queue: StatusQueue, metrics: Arc<Metrics>) -> Self {
        SessionTable {
            table: Mutex::default(),
            status_queue,
            metrics,
            ended: Notify::new(),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status_queue(&self) -> &StatusQueue {
        &self.status_queue
    }

    /// The registered sessions of a cluster, oldest first.
    pub(crate) fn registered(&self, cluster: &ClusterId) -> Vec<AgentSession> {
        let table = self.table();
        let group = table.groups.get(cluster);
        group.map(|it| it.sessions()).unwrap_or_default()
    }

    /// What the sessions of a cluster carry; `None` without a session.
    pub(crate) fn activity(&self, cluster: &ClusterId) -> Option<SessionActivity> {
        let activity = self.table().groups.get(cluster)?.activity();
        let versions: BTreeSet<&str> = activity.agents.iter().map(|it| &**it).collect();
        Some(SessionActivity {
            instances: activity.instances,
            agent_versions: versions.into_iter().map(str::to_owned).collect(),
            rtt: activity.rtt,
            requests_open: activity.requests_open,
            requests_total: activity.traffic.requests,
            bytes_in: activity.traffic.bytes_in,
            bytes_out: activity.traffic.bytes_out,
        })
    }

    /// Number of open sessions, those that do not serve included.
    pub(crate) fn count(&self) -> usize {
        self.table().open.len()
    }

    /// Completes when no session is open.
    pub(crate) async fn all_ended(&self) {
        loop {
            let ended = self.ended.notified();
            if self.count() == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Adds a session that is not registered yet.
    pub(crate) fn open(
        &self,
        session: Session,
        identity: AgentIdentity,
        from: IpAddr,
    ) -> Arc<SessionEntry> {
        let entry = Arc::new(SessionEntry::new(session, identity, from));
        self.table().open.push(Arc::clone(&entry));
        entry
    }

    /// Counts a new session; true in a burst, when deferrable work should wait.
    pub(super) fn in_connection_burst(&self) -> bool {
        self.table().burst.count(Instant::now())
    }

    /// Registers a session: requests may go to it, and the session of the same name is requested to end. A second call
    /// updates the identity.
    ///
    /// # Errors
    /// `FL-1304` if it had another name before; `FL-1406` if it is about to end.
    pub(crate) fn register(
        &self,
        entry: &Arc<SessionEntry>,
        identity: SessionIdentity,
    ) -> Result<(), Failure> {
        let mut table = self.table();
        if entry.is_ending() {
            return Err(Code::Draining.into());
        }
        let group = table.groups.entry(entry.cluster().clone()).or_default();
        let registered = group.register(entry, identity);
        group.report_if_changed(entry.cluster(), &self.status_queue);
        table.awaited.remove(entry.cluster());
        registered?;
        entry.register();
        Ok(())
    }

    /// Evicts a session, which then serves nothing. `why` becomes the cluster's last error, if this was its last
    /// registered session; without it the cluster is gone or new, and keeps its status.
    pub(crate) fn evict(
        &self,
        entry: &Arc<SessionEntry>,
        reason: CloseReason,
        why: Option<&Failure>,
    ) {
        let status = why
            .cloned()
            .map(|Failure { code, cause, .. }| lost_status(LastError { code, cause }));
        let mut table = self.table();
        self.deregister(&mut table, entry, status);
        entry.end(reason);
    }

    /// Removes a session from its cluster. `status` becomes the cluster's, if this was its last registered session.
    fn deregister(
        &self,
        table: &mut Table,
        entry: &Arc<SessionEntry>,
        status: Option<ClusterStatus>,
    ) {
        let MapEntry::Occupied(mut group) = table.groups.entry(entry.cluster().clone()) else {
            return;
        };
        if !group.get_mut().deregister(entry) {
            return;
        }
        if group.get().is_empty() {
            let group = group.remove();
            if let Some(status) = status {
                self.status_queue
                    .put(entry.cluster(), group.final_status(status));
            }
        } else {
            group
                .get_mut()
                .report_if_changed(entry.cluster(), &self.status_queue);
        }
    }

    /// Core of a cluster's session for requests of this core; `None` without a session.
    pub(crate) fn core_of(&self, cluster: &ClusterId) -> Option<usize> {
        self.table().groups.get(cluster)?.core()
    }

    /// Acquires the best session of a cluster for one request.
    ///
    /// The request is counted under the lock: a session that is replaced at this moment either finishes it or does not
    /// get it.
    ///
    /// # Errors
    /// `FL-1403` if all sessions have so many requests that only the streams for probes and renewal are ended.
    pub(crate) fn acquire(&self, cluster: &ClusterId) -> Result<Acquired, Failure> {
        let mut table = self.table();
        table.turns += 1;
        let turn = table.turns;
        let group = table.groups.get_mut(cluster);
        let chosen = group.and_then(|group| Some((group.choose(turn)?, group)));
        let Some((entry, group)) = chosen else {
            return Ok(Acquired::Absent(table.first_session(cluster)));
        };
        if !entry.session().is_up() || entry.silence_of_agent().is_some() {
            return Ok(Acquired::Down(group.wait_for_link()));
        }
        if entry.is_full() {
            return Err(Code::AgentFull.into());
        }
        let running = entry.token();
        Ok(Acquired::Up(entry, running))
    }

    /// Acquires another session of the same cluster for a read that `entry` does not answer; `None` if no other one
    /// answers its probes.
    pub(crate) fn acquire_other(
        &self,
        entry: &Arc<SessionEntry>,
    ) -> Option<(Arc<SessionEntry>, Running)> {
        let mut table = self.table();
        table.turns += 1;
        let turn = table.turns;
        let other = table.groups.get_mut(entry.cluster())?.choose(turn)?;
        let usable = !Arc::ptr_eq(&other, entry) && !other.is_doubtful() && !other.is_full();
        usable.then(|| {
            let running = other.token();
            (other, running)
        })
    }

    /// Open sessions of a cluster, or of all clusters.
    pub(crate) fn open_sessions(&self, cluster: Option<&ClusterId>) -> Vec<Arc<SessionEntry>> {
        let table = self.table();
        let open = table.open.iter();
        let chosen = open.filter(|entry| cluster.is_none_or(|id| id == entry.cluster()));
        chosen.cloned().collect()
    }

    /// Notifies a cluster's agents by an immediate probe.
    pub(crate) fn trigger_probe(&self, cluster: &ClusterId) {
        if let Some(group) = self.table().groups.get(cluster) {
            group.trigger_probe();
        }
    }

    /// Notes the result of a probe over the session, and its round trip.
    pub(crate) fn record_probe(
        &self,
        entry: &Arc<SessionEntry>,
        probed: &ProbeResult,
        rtt: Option<Duration>,
    ) {
        if let Some(group) = self.table().groups.get_mut(entry.cluster()) {
            group.record_probe(entry, probed, rtt);
            group.report_if_changed(entry.cluster(), &self.status_queue);
        }
    }

    /// Notes the status of the cluster as this session observes it.
    pub(crate) fn record_status(&self, entry: &Arc<SessionEntry>, status: ClusterStatus) {
        if let Some(group) = self.table().groups.get_mut(entry.cluster()) {
            group.record_status(entry, status);
            group.report_if_changed(entry.cluster(), &self.status_queue);
        }
    }

    /// Removes a session that has ended. `status` becomes the cluster's, if this was its last one.
    pub(crate) fn remove(
        &self,
        entry: &Arc<SessionEntry>,
        end: &'static str,
        status: ClusterStatus,
    ) {
        entry.update_metrics(&self.metrics);
        self.metrics.sessions_ended.with_label_values(&[end]).inc();
        let mut table = self.table();
        table.open.retain(|open| !Arc::ptr_eq(open, entry));
        if table.open.is_empty() {
            self.ended.notify_waiters();
        }
        self.deregister(&mut table, entry, Some(status));
    }

    /// Updates the metrics; returns the first expiry of a certificate per cluster.
    pub(super) fn update_metrics(&self) -> HashMap<ClusterId, OffsetDateTime> {
        let entries = self.table().open.clone();
        let mut streams = 0;
        let mut states = SessionState::ALL.map(|_| 0);
        let mut expiries = HashMap::new();
        for entry in &entries {
            streams += entry.update_metrics(&self.metrics);
            if let Some(count) = states.get_mut(entry.session_state() as usize) {
                *count += 1;
            }
            let expiry = entry.valid_until();
            let first = expiries.entry(entry.cluster().clone()).or_insert(expiry);
            *first = expiry.min(*first);
        }
        self.metrics
            .traffic
            .streams_open
            .set(i64::try_from(streams).unwrap_or(i64::MAX));
        self.metrics.traffic.set_sessions(states);
        expiries
    }

    /// Activity of each cluster with a registered session. The table is locked for one cluster at a time.
    pub(super) fn activities(&self) -> Vec<(ClusterId, ClusterActivity)> {
        let clusters: Vec<ClusterId> = self.table().groups.keys().cloned().collect();
        let activity = |id: ClusterId| {
            let activity = self.table().groups.get(&id)?.activity();
            Some((id, activity))
        };
        clusters.into_iter().filter_map(activity).collect()
    }
}
