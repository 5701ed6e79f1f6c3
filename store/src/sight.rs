//! Observed status of all clusters, such as connection state and time of the last report.
//!
//! It lives in memory, is read without a lock, and is persisted in batches without sync: after a
//! crash it is observed again. Hubs on a shared database write their own observations and show the
//! merged result.

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
    backend::SeenRow,
    error::{Result, StoreError},
    observed::{Observed, alike},
    peers::{HubRow, Peers, claims, lose_at},
};

/// Time over which observations are batched.
pub(super) const GATHER: Duration = Duration::from_millis(250);

pub(super) type Sights = OrdMap<ClusterId, Arc<Observed>>;

pub(super) struct Observations {
    /// Name of this hub on the database; empty if it is the only user.
    me: String,
    /// Merged observations shown to readers.
    all: ArcSwap<Sights>,
    /// Held while changing `all`.
    table: Mutex<Table>,
    pub(super) wake: Notify,
    /// Number of changes of `all`.
    turn: watch::Sender<u64>,
}

#[derive(Default)]
struct Table {
    /// URL of this hub, once it takes part in the membership.
    url: Option<HubUrl>,
    own: Sights,
    /// Clusters to persist.
    dirty: BTreeSet<ClusterId>,
    /// Other hubs' observations, by hub name.
    others: BTreeMap<ClusterId, BTreeMap<String, Arc<Observed>>>,
    peers: Peers,
    /// Sequence number up to which others' rows were read.
    mark: i64,
    /// Clusters whose rows must be read again.
    again: BTreeSet<ClusterId>,
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
pub(super) struct Gathered {
    pub(super) clusters: BTreeSet<ClusterId>,
    pub(super) rows: Vec<(String, String)>,
    /// Cluster and hub of rows merged into these.
    pub(super) folded: Vec<(String, String)>,
}

impl Table {
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
            own.status.hub = claims(&own.status).then(|| url.clone());
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
        let others = others.map(|(hub, said)| self.peers.read(hub, said));
        let all = own.into_iter().chain(others);
        all.reduce(Observed::and).map(Arc::new)
    }

    /// Start of the same status on another live hub.
    fn begun_elsewhere(
        &self,
        cluster: &ClusterId,
        status: &ClusterStatus,
    ) -> Option<OffsetDateTime> {
        let others = self.others.get(cluster).into_iter().flatten();
        let living = others.filter(|(hub, it)| self.peers.lives(hub) && alike(&it.status, status));
        living.map(|(_, it)| it.status.since).min()
    }

    /// Merges the observations of dead hubs into our own, so that their rows can be deleted.
    fn fold(
        &mut self,
        cluster: &ClusterId,
        own: Observed,
        folded: &mut Vec<(String, String)>,
    ) -> Observed {
        let Table { others, peers, .. } = self;
        let Some(rows) = others.get_mut(cluster) else {
            return own;
        };
        let gone = rows.keys().filter(|hub| !peers.lives(hub));
        let gone: Vec<String> = gone.cloned().collect();
        let mut sum = own;
        for hub in gone {
            if let Some(said) = rows.remove(&hub) {
                sum = sum.and(peers.read(&hub, &said));
                folded.push((cluster.to_string(), hub));
            }
        }
        if rows.is_empty() {
            others.remove(cluster);
        }
        sum.by = None;
        sum
    }
}

impl Observations {
    /// `me` is this hub's name on a shared database; empty if it is the only user.
    pub(super) fn load(me: String, rows: Vec<SeenRow>, hubs: Vec<HubRow>) -> Result<Self> {
        let mut table = Table::default();
        table.peers.look(hubs, Instant::now());
        let alone = me.is_empty();
        for row in rows {
            table.mark = table.mark.max(row.seq);
            let Some((cluster, observed)) = read(&row)? else {
                continue;
            };
            if alone && row.hub.is_empty() {
                table.own.insert(cluster, Arc::new(observed));
            } else {
                let said = table.others.entry(cluster).or_default();
                said.insert(row.hub, Arc::new(observed));
            }
        }
        let clusters: BTreeSet<ClusterId> = table
            .own
            .keys()
            .chain(table.others.keys())
            .cloned()
            .collect();
        let shown = |id: ClusterId| Some((table.shown(&id)?, id));
        let all: Sights = clusters
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
        })
    }

    pub(super) fn me(&self) -> &str {
        &self.me
    }

    pub(super) fn get(&self, cluster: &ClusterId) -> Option<Arc<Observed>> {
        self.all.load().get(cluster).cloned()
    }

    pub(super) fn all(&self) -> Arc<Sights> {
        self.all.load_full()
    }

    /// URL of another hub with a session of this cluster, if its heartbeat is recent.
    pub(super) fn elsewhere(&self, cluster: &ClusterId) -> Option<HubUrl> {
        let shown = self.get(cluster)?;
        let hub = shown.by.as_ref().filter(|_| claims(&shown.status))?;
        self.table().peers.sure(hub, Instant::now()).cloned()
    }

    pub(super) fn leads(&self) -> bool {
        !self.table().peers.precede(&self.me)
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
        if let Some(since) = table.begun_elsewhere(cluster, &status) {
            status.since = since.min(status.since);
        }
        let own = table.own.get(cluster).map(|it| &it.status);
        if let Some(own) = own.filter(|own| !self.me.is_empty() && alike(own, &status)) {
            status.since = own.since.min(status.since);
        }
        self.amend(&mut table, cluster, start, |observed| {
            observed.status = status;
        });
    }

    fn amend(
        &self,
        table: &mut Table,
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

    fn show<'a>(&self, table: &mut Table, clusters: impl IntoIterator<Item = &'a ClusterId>) {
        let mut all = Sights::clone(&self.all.load());
        for cluster in clusters {
            let shown = table.shown(cluster);
            if !ticks(all.get(cluster).map(Arc::as_ref), shown.as_deref()) {
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
        let mut all = Sights::clone(&self.all.load());
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
            table.again.insert(cluster.clone());
            if own.is_some() {
                table.dirty.insert(cluster.clone());
                self.wake.notify_one();
            }
        }
        self.all.store(Arc::new(all));
    }

    /// Sessions end with the hub, the only user of the database; returns the number of connected
    /// clusters.
    pub(super) fn lose_sessions(&self, now: OffsetDateTime, cause: &str) -> usize {
        let lost = self.claimed();
        for cluster in &lost {
            let lose = |it: &mut Observed| lose_at(&mut it.status, now, cause);
            self.change(cluster, || Observed::nothing(now), lose);
        }
        lost.len()
    }

    /// Clusters with a session.
    pub(super) fn claimed(&self) -> Vec<ClusterId> {
        let all = self.all();
        let claimed = all.iter().filter(|(_, it)| claims(&it.status));
        claimed.map(|(id, _)| id.clone()).collect()
    }

    /// From here on this hub takes part in the membership.
    pub(super) fn join(&self, url: HubUrl) {
        self.table().url = Some(url);
    }

    /// Sequence number up to which others' rows were read, and clusters to read again.
    pub(super) fn known(&self) -> (i64, Vec<String>) {
        let mut table = self.table();
        let again = mem::take(&mut table.again);
        let again = again.iter().map(ToString::to_string);
        (table.mark, again.collect())
    }

    /// Schedules another read after a failure.
    pub(super) fn read_again(&self, clusters: &[String]) {
        let clusters = clusters.iter().filter_map(|id| id.parse().ok());
        self.table().again.extend(clusters);
    }

    /// Applies other hubs' rows.
    pub(super) fn take_in(&self, rows: Vec<SeenRow>) {
        if rows.is_empty() {
            return;
        }
        let mut table = self.table();
        let mut touched = BTreeSet::new();
        for row in rows {
            table.mark = table.mark.max(row.seq);
            if row.hub == self.me {
                continue;
            }
            match read(&row) {
                Ok(Some((cluster, observed))) => {
                    let said = table.others.entry(cluster.clone()).or_default();
                    said.insert(row.hub, Arc::new(observed));
                    touched.insert(cluster);
                }
                Ok(None) => {
                    let Ok(cluster) = row.cluster.parse() else {
                        continue;
                    };
                    if let Some(said) = table.others.get_mut(&cluster) {
                        said.remove(&row.hub);
                    }
                    touched.insert(cluster);
                }
                Err(error) => warn!(%error, "what another hub has seen cannot be read"),
            }
        }
        self.show(&mut table, &touched);
    }

    /// Applies the list of hubs. Returns true if the others declared this one dead and may have
    /// removed its rows.
    pub(super) fn take_in_hubs(&self, mut hubs: Vec<HubRow>, silent: Duration) -> bool {
        let silent = i64::try_from(silent.as_millis()).unwrap_or(i64::MAX);
        let me = hubs.iter().position(|hub| hub.id == self.me);
        let me = me.map(|at| hubs.swap_remove(at));
        let given_up = me.is_none_or(|me| me.ended || me.age >= silent);
        let mut table = self.table();
        let other = table.peers.look(hubs, Instant::now());
        if !other.is_empty() {
            let mentions =
                |rows: &BTreeMap<String, Arc<Observed>>| rows.keys().any(|hub| other.contains(hub));
            let touched = table.others.iter().filter(|(_, rows)| mentions(rows));
            let touched: Vec<ClusterId> = touched.map(|(id, _)| id.clone()).collect();
            self.show(&mut table, &touched);
        }
        given_up
    }

    /// Schedules everything to be persisted again.
    pub(super) fn write_again(&self) {
        let mut table = self.table();
        let own: Vec<ClusterId> = table.own.keys().cloned().collect();
        table.dirty.extend(own);
        self.wake.notify_one();
    }

    /// Takes the observations to persist; [`Observations::give_back`] returns them after a failure.
    pub(super) fn gathered(&self) -> Gathered {
        let mut table = self.table();
        let clusters = mem::take(&mut table.dirty);
        let (mut rows, mut folded) = (Vec::new(), Vec::new());
        for id in &clusters {
            let Some(own) = table.own.get(id).cloned() else {
                rows.push((id.to_string(), NOTHING.to_owned()));
                continue;
            };
            let sum = table.fold(id, Observed::clone(&own), &mut folded);
            if let Ok(body) = serde_json::to_string(&sum) {
                rows.push((id.to_string(), body));
            }
            if sum != *own {
                table.own.insert(id.clone(), Arc::new(sum));
            }
        }
        Gathered {
            clusters,
            rows,
            folded,
        }
    }

    pub(super) fn give_back(&self, gathered: Gathered) {
        self.table().dirty.extend(gathered.clusters);
        self.wake.notify_one();
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True if two observations differ only by the passage of time.
fn ticks(before: Option<&Observed>, after: Option<&Observed>) -> bool {
    let (Some(before), Some(after)) = (before, after) else {
        return before.is_none() && after.is_none();
    };
    let (one, other) = (&before.status, &after.status);
    one.state == other.state
        && one.since == other.since
        && one.last_error == other.last_error
        && one.hub == other.hub
        && before.applied == after.applied
}

/// Body of a withdrawn observation.
const NOTHING: &str = "";

fn read(row: &SeenRow) -> Result<Option<(ClusterId, Observed)>> {
    if row.body == NOTHING {
        return Ok(None);
    }
    let damaged = || StoreError::Damaged(format!("the status of {}", row.cluster));
    let observed = serde_json::from_str(&row.body).map_err(|_| damaged())?;
    let cluster = row.cluster.parse().map_err(|_| damaged())?;
    Ok(Some((cluster, observed)))
}
