//! Observed status of all clusters, such as connection state and time of the last report.
//!
//! It lives in memory, is read without a lock, and is persisted in batches without sync: after a
//! crash it is observed again. Hubs on a shared database write their own observations and show the
//! merged result.

mod hubs;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use fairlead_api::{ClusterId, HubUrl, resources::ClusterStatus};
use imbl::OrdMap;
use time::OffsetDateTime;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tracing::warn;

use crate::{
    agent_hubs::{AgentAddress, AgentHubs},
    backend::ObservedRow,
    error::{Result, StoreError},
    heartbeats::{HubRow, LiveHub, RemoteHubs, has_session, mark_lost},
    observed::{Observed, continues, differ_in_time_only},
};

/// Time over which observations are batched.
pub(super) const PERSIST_DELAY: Duration = Duration::from_millis(250);

pub(super) type ObservedMap = OrdMap<ClusterId, Arc<Observed>>;

pub(super) struct Observations {
    /// Name of this hub on the database; empty if it is the only user.
    me: String,
    /// Merged observations shown to readers.
    all: ArcSwap<ObservedMap>,
    /// Held while changing `all`.
    table: Mutex<ObservationTable>,
    pub(super) wake: Notify,
    /// Number of changes of `all`.
    turn: watch::Sender<u64>,
    /// The other live hubs that take forwarded requests.
    hubs: watch::Sender<Arc<[LiveHub]>>,
    /// All hubs as agents find them.
    agent_hubs: ArcSwap<AgentHubs>,
}

#[derive(Default)]
struct ObservationTable {
    /// URL of this hub, once it takes part in the membership.
    url: Option<HubUrl>,
    /// URL and address of this hub for agents.
    agents: Option<(HubUrl, AgentAddress)>,
    own: ObservedMap,
    /// Clusters to persist.
    dirty: BTreeSet<ClusterId>,
    /// Other hubs' observations, by hub name.
    others: BTreeMap<ClusterId, BTreeMap<String, Arc<Observed>>>,
    peers: RemoteHubs,
    /// Sequence number up to which others' rows were read.
    last_seq: i64,
    /// Clusters with rows to read again.
    reread: BTreeSet<ClusterId>,
    turns: Turns,
}

/// Turn of each cluster's last visible change. Restarts with the process.
#[derive(Default)]
struct Turns {
    last: u64,
    of: BTreeMap<ClusterId, u64>,
    order: BTreeMap<u64, ClusterId>,
}

impl Turns {
    fn take(&mut self, cluster: &ClusterId) {
        self.last += 1;
        self.forget(cluster);
        self.of.insert(cluster.clone(), self.last);
        self.order.insert(self.last, cluster.clone());
    }

    fn forget(&mut self, cluster: &ClusterId) {
        if let Some(before) = self.of.remove(cluster) {
            self.order.remove(&before);
        }
    }
}

/// Observations to persist.
#[derive(Default)]
pub(super) struct PendingRows {
    pub(super) clusters: BTreeSet<ClusterId>,
    pub(super) rows: Vec<(String, String)>,
    /// Cluster and hub of rows merged into these.
    pub(super) merged_rows: Vec<(String, String)>,
}

impl ObservationTable {
    /// Merged observation of a cluster.
    fn shown(&self, cluster: &ClusterId) -> Option<Arc<Observed>> {
        let own = self.own.get(cluster);
        let others = self.others.get(cluster);
        let (Some(url), own) = (&self.url, own) else {
            if others.is_none() {
                return own.cloned();
            }
            return self.merged(own.map(|it| Observed::clone(it)), others);
        };
        let own = own.map(|it| {
            let mut own = Observed::clone(it);
            own.status.hub = has_session(&own.status).then(|| url.clone());
            own
        });
        self.merged(own, others)
    }

    fn merged(
        &self,
        own: Option<Observed>,
        others: Option<&BTreeMap<String, Arc<Observed>>>,
    ) -> Option<Arc<Observed>> {
        let others = others.into_iter().flatten();
        let others = others.map(|(hub, rows_of_cluster)| self.peers.adjusted(hub, rows_of_cluster));
        let all = own.into_iter().chain(others);
        all.reduce(Observed::and).map(Arc::new)
    }

    /// Start of the same status on another live hub.
    fn since_on_other_hubs(
        &self,
        cluster: &ClusterId,
        status: &ClusterStatus,
    ) -> Option<OffsetDateTime> {
        let others = self.others.get(cluster).into_iter().flatten();
        let living =
            others.filter(|(hub, it)| self.peers.is_alive(hub) && continues(&it.status, status));
        living.map(|(_, it)| it.status.since).min()
    }

    /// Merges the observations of dead hubs into our own, so that their rows can be deleted.
    fn merge_dead_hubs(
        &mut self,
        cluster: &ClusterId,
        own: Observed,
        merged_rows: &mut Vec<(String, String)>,
    ) -> Observed {
        let ObservationTable { others, peers, .. } = self;
        let Some(rows) = others.get_mut(cluster) else {
            return own;
        };
        let gone = rows.keys().filter(|hub| !peers.is_alive(hub));
        let gone: Vec<String> = gone.cloned().collect();
        let mut merged = own;
        for hub in gone {
            if let Some(rows_of_cluster) = rows.remove(&hub) {
                merged = merged.and(peers.adjusted(&hub, &rows_of_cluster));
                merged_rows.push((cluster.to_string(), hub));
            }
        }
        if rows.is_empty() {
            others.remove(cluster);
        }
        merged.by = None;
        merged
    }
}

impl Observations {
    /// `me` is this hub's name on a shared database; empty if it is the only user.
    pub(super) fn load(me: String, rows: Vec<ObservedRow>, hubs: Vec<HubRow>) -> Result<Self> {
        let mut table = ObservationTable::default();
        table.peers.update(hubs, Instant::now());
        let hubs = watch::Sender::new(table.peers.reachable().into());
        let alone = me.is_empty();
        for row in rows {
            table.last_seq = table.last_seq.max(row.seq);
            let Some((cluster, observed)) = read(&row)? else {
                continue;
            };
            if alone && row.hub.is_empty() {
                table.own.insert(cluster, Arc::new(observed));
            } else {
                let rows_of_cluster = table.others.entry(cluster).or_default();
                rows_of_cluster.insert(row.hub, Arc::new(observed));
            }
        }
        let clusters: BTreeSet<ClusterId> = table
            .own
            .keys()
            .chain(table.others.keys())
            .cloned()
            .collect();
        let shown = |id: ClusterId| Some((table.shown(&id)?, id));
        let all: ObservedMap = clusters
            .into_iter()
            .filter_map(shown)
            .map(|(it, id)| (id, it))
            .collect();
        Ok(Observations {
            me,
            all: ArcSwap::from_pointee(all),
            table: Mutex::new(table),
            wake: Notify::new(),
            turn: watch::Sender::new(0),
            hubs,
            agent_hubs: ArcSwap::default(),
        })
    }

    pub(super) fn me(&self) -> &str {
        &self.me
    }

    pub(super) fn get(&self, cluster: &ClusterId) -> Option<Arc<Observed>> {
        self.all.load().get(cluster).cloned()
    }

    pub(super) fn all(&self) -> Arc<ObservedMap> {
        self.all.load_full()
    }

    pub(super) fn change(
        &self,
        cluster: &ClusterId,
        start: impl FnOnce() -> Observed,
        change: impl FnOnce(&mut Observed),
    ) {
        self.amend(&mut self.table(), cluster, start, change);
    }

    /// Sets the status as observed by this hub. If another hub observed the same status earlier,
    /// that start time is kept: an agent that moves between hubs was not away.
    pub(super) fn set_status(
        &self,
        cluster: &ClusterId,
        start: impl FnOnce() -> Observed,
        mut status: ClusterStatus,
    ) {
        let mut table = self.table();
        if let Some(since) = table.since_on_other_hubs(cluster, &status) {
            status.since = since.min(status.since);
        }
        let own = table.own.get(cluster).map(|it| &it.status);
        if let Some(own) = own.filter(|own| !self.me.is_empty() && continues(own, &status)) {
            status.since = own.since.min(status.since);
        }
        self.amend(&mut table, cluster, start, |observed| {
            observed.status = status;
        });
    }

    fn amend(
        &self,
        table: &mut ObservationTable,
        cluster: &ClusterId,
        start: impl FnOnce() -> Observed,
        change: impl FnOnce(&mut Observed),
    ) {
        let own = table.own.get(cluster);
        let mut observed = own.map_or_else(start, |it| Observed::clone(it));
        change(&mut observed);
        if own.is_some_and(|it| **it == observed) {
            return;
        }
        table.own.insert(cluster.clone(), Arc::new(observed));
        table.dirty.insert(cluster.clone());
        self.show(table, [cluster]);
        self.wake.notify_one();
    }

    fn show<'a>(
        &self,
        table: &mut ObservationTable,
        clusters: impl IntoIterator<Item = &'a ClusterId>,
    ) {
        let mut all = ObservedMap::clone(&self.all.load());
        for cluster in clusters {
            let shown = table.shown(cluster);
            if !differ_in_time_only(all.get(cluster).map(Arc::as_ref), shown.as_deref()) {
                table.turns.take(cluster);
            }
            match shown {
                Some(shown) => drop(all.insert(cluster.clone(), shown)),
                None => drop(all.remove(cluster)),
            }
        }
        self.all.store(Arc::new(all));
        let last = table.turns.last;
        self.turn
            .send_if_modified(|turn| std::mem::replace(turn, last) != last);
    }

    /// Notified of turns; one notification may cover several.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.turn.subscribe()
    }

    /// Clusters changed after this turn, deleted ones excluded.
    pub(super) fn since(&self, turn: u64) -> Vec<ClusterId> {
        let table = self.table();
        let later = (Bound::Excluded(turn), Bound::Unbounded);
        table
            .turns
            .order
            .range(later)
            .map(|(_, id)| id.clone())
            .collect()
    }

    /// Removes clusters that were deleted or created again.
    pub(super) fn forget<'a>(&self, clusters: impl IntoIterator<Item = &'a ClusterId>) {
        let mut table = self.table();
        let mut all = ObservedMap::clone(&self.all.load());
        for cluster in clusters {
            all.remove(cluster);
            table.dirty.remove(cluster);
            table.others.remove(cluster);
            table.turns.forget(cluster);
            let own = table.own.remove(cluster);
            if self.me.is_empty() {
                continue;
            }
            // Another hub's observation of the new cluster may have arrived earlier.
            table.reread.insert(cluster.clone());
            if own.is_some() {
                table.dirty.insert(cluster.clone());
                self.wake.notify_one();
            }
        }
        self.all.store(Arc::new(all));
    }

    /// Sessions end with the hub, the only user of the database; returns the number of connected
    /// clusters.
    pub(super) fn mark_sessions_lost(&self, now: OffsetDateTime, cause: &str) -> usize {
        let lost = self.with_session();
        for cluster in &lost {
            let lose = |it: &mut Observed| mark_lost(&mut it.status, now, cause);
            self.change(cluster, || Observed::nothing(now), lose);
        }
        lost.len()
    }

    /// Clusters with a session.
    pub(super) fn with_session(&self) -> Vec<ClusterId> {
        let all = self.all();
        let with_session = all.iter().filter(|(_, it)| has_session(&it.status));
        with_session.map(|(id, _)| id.clone()).collect()
    }

    /// From here on this hub takes part in the membership.
    pub(super) fn join(&self, url: HubUrl) {
        self.table().url = Some(url);
    }

    /// Sequence number up to which others' rows were read, and clusters to read again.
    pub(super) fn read_position(&self) -> (i64, Vec<String>) {
        let mut table = self.table();
        let reread = mem::take(&mut table.reread);
        let reread = reread.iter().map(ToString::to_string);
        (table.last_seq, reread.collect())
    }

    /// Schedules another read after a failure.
    pub(super) fn schedule_read(&self, clusters: &[String]) {
        let clusters = clusters.iter().filter_map(|id| id.parse().ok());
        self.table().reread.extend(clusters);
    }

    /// Applies other hubs' rows.
    pub(super) fn apply_rows(&self, rows: Vec<ObservedRow>) {
        if rows.is_empty() {
            return;
        }
        let mut table = self.table();
        let mut touched = BTreeSet::new();
        for row in rows {
            table.last_seq = table.last_seq.max(row.seq);
            if row.hub == self.me {
                continue;
            }
            match read(&row) {
                Ok(Some((cluster, observed))) => {
                    let rows_of_cluster = table.others.entry(cluster.clone()).or_default();
                    rows_of_cluster.insert(row.hub, Arc::new(observed));
                    touched.insert(cluster);
                }
                Ok(None) => {
                    let Ok(cluster) = row.cluster.parse() else {
                        continue;
                    };
                    if let Some(rows_of_cluster) = table.others.get_mut(&cluster) {
                        rows_of_cluster.remove(&row.hub);
                    }
                    touched.insert(cluster);
                }
                Err(error) => warn!(%error, "invalid observation of another hub"),
            }
        }
        self.show(&mut table, &touched);
    }

    /// Applies the list of hubs. Returns true if the others declared this one dead and may have
    /// removed its rows.
    pub(super) fn apply_hubs(&self, mut hubs: Vec<HubRow>, silent: Duration) -> bool {
        let silent = i64::try_from(silent.as_millis()).unwrap_or(i64::MAX);
        let me = hubs.iter().position(|hub| hub.id == self.me);
        let me = me.map(|at| hubs.swap_remove(at));
        let declared_dead = me.is_none_or(|me| me.ended || me.age >= silent);
        let mut table = self.table();
        let changed = table.peers.update(hubs, Instant::now());
        if !changed.is_empty() {
            let mentions = |rows: &BTreeMap<String, Arc<Observed>>| {
                rows.keys().any(|hub| changed.contains(hub))
            };
            let touched = table.others.iter().filter(|(_, rows)| mentions(rows));
            let touched: Vec<ClusterId> = touched.map(|(id, _)| id.clone()).collect();
            self.show(&mut table, &touched);
            self.hubs.send_replace(table.peers.reachable().into());
            self.list_agent_hubs(&table);
        }
        declared_dead
    }

    /// Schedules everything to be persisted again.
    pub(super) fn persist_all_again(&self) {
        let mut table = self.table();
        let own: Vec<ClusterId> = table.own.keys().cloned().collect();
        table.dirty.extend(own);
        self.wake.notify_one();
    }

    /// Takes the observations to persist; [`Observations::return_pending`] returns them after a failure.
    pub(super) fn take_pending(&self) -> PendingRows {
        let mut table = self.table();
        let clusters = mem::take(&mut table.dirty);
        let (mut rows, mut merged_rows) = (Vec::new(), Vec::new());
        for id in &clusters {
            let Some(own) = table.own.get(id).cloned() else {
                rows.push((id.to_string(), WITHDRAWN.to_owned()));
                continue;
            };
            let merged = table.merge_dead_hubs(id, Observed::clone(&own), &mut merged_rows);
            if let Ok(body) = serde_json::to_string(&merged) {
                rows.push((id.to_string(), body));
            }
            if merged != *own {
                table.own.insert(id.clone(), Arc::new(merged));
            }
        }
        PendingRows {
            clusters,
            rows,
            merged_rows,
        }
    }

    pub(super) fn return_pending(&self, take_pending: PendingRows) {
        self.table().dirty.extend(take_pending.clusters);
        self.wake.notify_one();
    }

    fn table(&self) -> MutexGuard<'_, ObservationTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Body of a withdrawn observation.
const WITHDRAWN: &str = "";

fn read(row: &ObservedRow) -> Result<Option<(ClusterId, Observed)>> {
    if row.body == WITHDRAWN {
        return Ok(None);
    }
    let damaged = || StoreError::Damaged(format!("the status of {}", row.cluster));
    let observed = serde_json::from_str(&row.body).map_err(|_| damaged())?;
    let cluster = row.cluster.parse().map_err(|_| damaged())?;
    Ok(Some((cluster, observed)))
}
