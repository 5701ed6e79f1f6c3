//! Handle of the store: changes of the registry, and observed status of clusters.

pub(crate) mod begin;
mod check;
mod history;
mod uses;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use arc_swap::ArcSwap;
use fairlead_api::{ClusterId, Failure, catalog::Catalog, resources::ClusterStatus};
use imbl::OrdMap;
use tokio::{
    sync::{Notify, broadcast, mpsc, oneshot, watch},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::warn;

use crate::{
    backend::Backend,
    clock::Clock,
    connections::Connections,
    document::whole,
    draft::Draft,
    error::{Refusal, Result, StoreError},
    journal::Actor,
    leadership::{self, Leadership},
    membership,
    metrics::{ChangeOutcome, Meter},
    millis::millis,
    model::{Cluster, FactSource, TenantQuotas, hex},
    observations::Observations,
    observed::Observed,
    open::{BUSY_TIMEOUT, as_it_is, backend},
    parts::Parts,
    place::Place,
    postgres, quota, random,
    record::Record,
    remote_commits::RemoteCommits,
    revision::Revision,
    shared::StoreState,
    token_uses::TokenUses,
    unusable::unusable,
    view::View,
    writer::{self, Done, PendingChange, QUEUE_CAPACITY, QueuedChange},
};

/// Capacity of a slow subscriber's queue of clusters with a revoked identity.
const REVOCATION_QUEUE_CAPACITY: usize = 1024;

/// Handle of a store; clones share it.
#[derive(Clone)]
pub struct Store {
    shared: Arc<StoreState>,
    queue: mpsc::Sender<Box<dyn QueuedChange>>,
    end: CancellationToken,
    tasks: TaskTracker,
}

impl Store {
    /// Opens the database, creates a missing file, and applies migrations.
    ///
    /// # Errors
    /// `FL-4103` if it is damaged, of a newer version, unreachable or not writable.
    pub async fn open(place: &Place, clock: Clock) -> std::result::Result<Self, Failure> {
        Store::open_with(place, clock, BUSY_TIMEOUT).await
    }

    /// Like [`Store::open`]; a writer waits at most `busy` for other programs' locks on the file.
    ///
    /// # Errors
    /// `FL-4103`
    pub async fn open_with(
        place: &Place,
        clock: Clock,
        busy: Duration,
    ) -> std::result::Result<Self, Failure> {
        let backend = backend(place, busy, false).await?;
        let meter = meter(place)?;
        let store = Store::over(backend, clock, meter).await;
        store.map_err(|error| unusable(place, &error))
    }

    /// Like [`Store::open`], for an existing store of exactly this version; its hub may be running.
    ///
    /// # Errors
    /// `FL-4103`
    pub async fn open_as_it_is(place: &Place, clock: Clock) -> std::result::Result<Self, Failure> {
        let store = Store::over(as_it_is(place).await?, clock, meter(place)?).await;
        store.map_err(|error| unusable(place, &error))
    }

    async fn over(backend: Arc<dyn Backend>, clock: Clock, meter: Meter) -> Result<Self> {
        let view = whole(backend.as_ref()).await?;
        let name = if backend.is_shared() {
            let name: [u8; 8] = random::bytes().map_err(|_| StoreError::CutOff)?;
            hex::encode(&name)
        } else {
            String::new()
        };
        let (observed, hubs) = (backend.seen(-1, &[]).await?, backend.hubs().await?);
        let observations = Observations::load(name, observed, hubs)?;
        let shared = Arc::new(StoreState {
            revision: watch::Sender::new(view.revision),
            view: ArcSwap::from_pointee(view),
            backend,
            clock,
            observations,
            token_uses: TokenUses::default(),
            meter,
            remote_commits: RemoteCommits::default(),
            remote_change: Notify::new(),
            revocations: broadcast::Sender::new(REVOCATION_QUEUE_CAPACITY),
            quotas: OnceLock::new(),
            addresses: OnceLock::new(),
            parts: Parts::default(),
            leadership: Leadership::default(),
        });
        let (queue, waiting) = mpsc::channel(QUEUE_CAPACITY);
        let (end, tasks) = (CancellationToken::new(), TaskTracker::new());
        tasks.spawn(work(Arc::clone(&shared), waiting, end.clone()));
        tasks.close();
        Ok(Store {
            shared,
            queue,
            end,
            tasks,
        })
    }

    pub(crate) fn state(&self) -> &StoreState {
        &self.shared
    }

    /// Clock of the database minus that of this machine, in milliseconds; `None` for a file, which has no clock.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn clock_offset(&self) -> Result<Option<i64>> {
        match self.connections() {
            Connections::Sqlite(_) => Ok(None),
            Connections::Postgres(pool) => {
                let there = postgres::clock(&pool).await?;
                Ok(Some(there - millis(self.shared.clock.now())))
            }
        }
    }

    /// Connections to the database, for tables outside of the registry.
    #[must_use]
    pub fn connections(&self) -> Connections {
        self.shared.backend.connections()
    }

    /// The current registry.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        self.shared.view()
    }

    /// Notified of new revisions; one notification may cover several.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Revision> {
        self.shared.revision.subscribe()
    }

    /// Clusters with a revoked identity, by a change of this hub or of another one: they were
    /// deleted, registered again or moved to another tenant, or have another agent key than before.
    #[must_use]
    pub fn revocations(&self) -> broadcast::Receiver<ClusterId> {
        self.shared.revocations.subscribe()
    }

    /// Changes the registry: `decide` reads the current state and edits the draft. The draft is
    /// committed as a whole, or dropped if `decide` fails.
    ///
    /// `decide` runs in the writer's turn, one at a time, so its reads stay valid until the commit.
    /// It may be called again, and must be quick. An unchanged draft writes nothing.
    ///
    /// # Errors
    /// The error of `decide`, or of the store if it cannot write; nothing has changed then.
    pub async fn change<T, E, Decide>(
        &self,
        actor: Actor,
        decide: Decide,
    ) -> std::result::Result<Done<T>, E>
    where
        T: Send + 'static,
        E: Refusal,
        Decide: FnMut(&mut Draft) -> std::result::Result<T, E> + Send + 'static,
    {
        let started = Instant::now();
        let (reply, answer) = oneshot::channel();
        let job = PendingChange {
            actor,
            decide,
            outcome: None,
            reply,
        };
        let sent = self.queue.send(Box::new(job)).await;
        sent.map_err(|_| StoreError::CutOff)?;
        let answer = answer.await;
        self.shared.meter.change_took(started.elapsed());
        answer.unwrap_or_else(|_| Err(StoreError::CutOff.into()))
    }

    /// Sets the default quotas of tenants, once.
    pub fn set_quotas(&self, defaults: TenantQuotas) {
        let _ = self.shared.quotas.set(defaults);
    }

    /// Evaluates a change against the current registry without keeping it; takes no turn of the
    /// writer.
    ///
    /// # Errors
    /// The error of `decide`, or an exceeded quota.
    pub fn attempt<T, E: From<StoreError>>(
        &self,
        actor: &Actor,
        decide: impl FnOnce(&mut Draft) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let mut draft = Draft::new(View::clone(&self.view()));
        let outcome = decide(&mut draft)?;
        let checked = quota::check(&mut draft, actor, self.shared.quota_terms());
        checked.map_err(StoreError::Quota)?;
        Ok(outcome)
    }

    /// Counts a change that was rejected before its turn because of an outdated precondition.
    pub fn has_lost(&self) {
        self.shared.meter.changed(ChangeOutcome::Conflict);
    }

    /// The store's metrics.
    pub fn meter(&self) -> Meter {
        self.shared.meter.clone()
    }

    /// The hubs' sealed keys; `None` if none are stored.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn keys(&self) -> Result<Option<String>> {
        self.shared.backend.keys().await
    }

    /// Stores the hubs' sealed keys; false if keys exist, which are kept.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn keep_keys(&self, sealed: &str) -> Result<bool> {
        self.shared.backend.keep_keys(sealed).await
    }

    /// Replaces the hubs' sealed keys; false if another hub has replaced them since `old` was read.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn replace_keys(&self, old: &str, new: &str) -> Result<bool> {
        self.shared.backend.replace_keys(old, new).await
    }

    /// The cluster's catalog; version 0 and empty if none was written.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn catalog(&self, cluster: &ClusterId) -> Result<Catalog> {
        let Some((version, objects)) = self.shared.counted_backend().catalog(cluster).await? else {
            return Ok(Catalog::default());
        };
        let objects = serde_json::from_str(&objects)
            .map_err(|_| StoreError::Damaged("a catalog".to_owned()))?;
        Ok(Catalog {
            version: i64::try_from(version).unwrap_or(i64::MAX),
            objects,
        })
    }

    /// Observed status of a cluster; `None` without such a cluster.
    #[must_use]
    pub fn observed(&self, cluster: &ClusterId) -> Option<Arc<Observed>> {
        Some(self.observed_of(self.view().cluster(cluster)?))
    }

    /// Observed status of this cluster.
    #[must_use]
    pub fn observed_of(&self, cluster: &Record<Cluster>) -> Arc<Observed> {
        let observed = self.shared.observations.get(&cluster.value.id);
        observed.unwrap_or_else(|| Arc::new(Observed::nothing(cluster.value.created)))
    }

    /// Observed status of all clusters that have one.
    #[must_use]
    pub fn all_observed(&self) -> Arc<OrdMap<ClusterId, Arc<Observed>>> {
        self.shared.observations.all()
    }

    /// Notified when an observed status changes, except for mere passage of time.
    #[must_use]
    pub fn watch_seen(&self) -> watch::Receiver<u64> {
        self.shared.observations.watch()
    }

    /// Clusters whose observed status changed after this turn, deleted ones excluded.
    #[must_use]
    pub fn seen_since(&self, turn: u64) -> Vec<ClusterId> {
        self.shared.observations.since(turn)
    }

    /// Sets the status of a cluster; ignored for a deleted one.
    pub fn set_status(&self, cluster: &ClusterId, status: ClusterStatus) {
        let Some(record) = self.view().cluster(cluster).cloned() else {
            return;
        };
        let start = || Observed::nothing(record.value.created);
        self.shared.observations.set_status(cluster, start, status);
    }

    /// Records that a source has reported facts, in milliseconds since 1970.
    pub fn facts_reported(&self, cluster: &ClusterId, source: FactSource, at: i64) {
        self.observe(cluster, |observed| {
            observed.reported.insert(source, at);
        });
    }

    /// Updates the observed status of a cluster; ignored for a deleted one.
    ///
    /// Readers see the update at once. It is persisted within a second, and lost if the hub is
    /// killed before that.
    pub fn observe(&self, cluster: &ClusterId, change: impl FnOnce(&mut Observed)) {
        let Some(record) = self.view().cluster(cluster).cloned() else {
            return;
        };
        let start = || Observed::nothing(record.value.created);
        self.shared.observations.change(cluster, start, change);
    }

    /// Waits for pending changes, then closes the database.
    pub async fn close(&self) {
        self.end.cancel();
        self.tasks.wait().await;
    }
}

/// Runs until `end`. Then it persists everything and tells the other hubs that this one has ended.
async fn work(
    shared: Arc<StoreState>,
    queue: mpsc::Receiver<Box<dyn QueuedChange>>,
    end: CancellationToken,
) {
    let writing = async {
        writer::run(Arc::clone(&shared), queue, end.clone()).await;
        // All handles are gone.
        end.cancel();
    };
    tokio::join!(
        writing,
        writer::listen(Arc::clone(&shared), end.clone()),
        membership::run(Arc::clone(&shared), end.clone()),
        leadership::run(Arc::clone(&shared), end.clone()),
    );
    if let Err(error) = shared.persist_token_uses().await {
        warn!(%error, "last uses of tokens not written");
    }
    membership::announce_end(&shared).await;
    shared.backend.close().await;
}

fn meter(place: &Place) -> std::result::Result<Meter, Failure> {
    Meter::new().map_err(|error| unusable(place, &error))
}
