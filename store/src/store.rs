//! Handle to the store: changes, and what was seen of clusters.

pub(crate) mod begin;
mod check;
mod history;

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

use crate::{
    backend::Backend,
    clock::Clock,
    company,
    document::whole,
    draft::Draft,
    error::{Refusal, Result, StoreError},
    foreign::Foreign,
    journal::Actor,
    meter::{Meter, Outcome},
    model::{Cluster, FactSource, hex},
    observed::Observed,
    open::{BUSY, as_it_is, backend},
    place::Place,
    random,
    record::Record,
    revision::Revision,
    shared::Shared,
    sight::Observations,
    unusable::unusable,
    view::View,
    writer::{self, Done, Job, LINE, Pending},
};

/// How many deletions a slow listener may be behind.
const PARTED_BACKLOG: usize = 1024;

/// Handle to the store; clones name the same.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
    line: mpsc::Sender<Box<dyn Job>>,
    end: CancellationToken,
    tasks: TaskTracker,
}

impl Store {
    /// Opens the database, makes a file where it is missing, and brings the tables up to date.
    ///
    /// # Errors
    /// `FL-4103` if it is damaged, of a newer version, cannot be reached, or cannot be written.
    pub async fn open(place: &Place, clock: Clock) -> std::result::Result<Self, Failure> {
        Store::open_with(place, clock, BUSY).await
    }

    /// As [`Store::open`]; a writer waits for other programs that hold the file for `busy` only.
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

    /// As [`Store::open`], for a store that is there and of this very version: its hub may be running.
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
        let (seen, hubs) = (backend.seen(-1, &[]).await?, backend.hubs().await?);
        let observations = Observations::load(name, seen, hubs)?;
        let shared = Arc::new(Shared {
            revision: watch::Sender::new(view.revision),
            view: ArcSwap::from_pointee(view),
            backend,
            clock,
            observations,
            meter,
            foreign: Foreign::default(),
            nudge: Notify::new(),
            parted: broadcast::Sender::new(PARTED_BACKLOG),
            url: OnceLock::new(),
        });
        let (line, waiting) = mpsc::channel(LINE);
        let (end, tasks) = (CancellationToken::new(), TaskTracker::new());
        tasks.spawn(work(Arc::clone(&shared), waiting, end.clone()));
        tasks.close();
        Ok(Store {
            shared,
            line,
            end,
            tasks,
        })
    }

    /// The registry as it is now.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        self.shared.view()
    }

    /// Tells of every new revision; one may stand for several.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Revision> {
        self.shared.revision.subscribe()
    }

    /// Clusters whose sessions have to end, because they were deleted or are another tenant's. What other hubs do is told here;
    /// whoever does it on this one says so itself.
    #[must_use]
    pub fn parted(&self) -> broadcast::Sender<ClusterId> {
        self.shared.parted.clone()
    }

    /// Changes the registry: `decide` looks at it as it is in this very moment and writes into the draft, all of which
    /// happens, or, if it answers with an error, nothing. It runs in the writer's turn, one at a time, so that whatever it
    /// has seen still holds; it may be run again, and must be quick. A draft in which nothing has changed writes nothing.
    ///
    /// # Errors
    /// What `decide` says, or what the store says if it cannot write; then nothing has changed.
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
        let asked = Instant::now();
        let (reply, answer) = oneshot::channel();
        let job = Pending {
            actor,
            decide,
            outcome: None,
            reply,
        };
        let sent = self.line.send(Box::new(job)).await;
        sent.map_err(|_| StoreError::CutOff)?;
        let answer = answer.await;
        self.shared.meter.change_took(asked.elapsed());
        answer.unwrap_or_else(|_| Err(StoreError::CutOff.into()))
    }

    /// What a change would come to, of the registry as it is now: nothing of it is kept, and it takes no turn of the writer.
    ///
    /// # Errors
    /// What `decide` says.
    pub fn attempt<T, E>(
        &self,
        decide: impl FnOnce(&mut Draft) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        decide(&mut Draft::new(View::clone(&self.view())))
    }

    /// Counts a change that was made from what is no more so, and that was told before its turn.
    pub fn has_lost(&self) {
        self.shared.meter.changed(Outcome::Conflict);
    }

    /// What it counts of its own work.
    pub fn meter(&self) -> Meter {
        self.shared.meter.clone()
    }

    /// The hubs' keys, as they were sealed; none where nobody keeps them here.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn keys(&self) -> Result<Option<String>> {
        self.shared.backend.keys().await
    }

    /// Keeps the hubs' keys; false if there are some, which stay.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn keep_keys(&self, sealed: &str) -> Result<bool> {
        self.shared.backend.keep_keys(sealed).await
    }

    /// The cluster's catalog; version 0 and empty where none was ever given.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn catalog(&self, cluster: &ClusterId) -> Result<Catalog> {
        let Some((version, objects)) = self.shared.asked().catalog(cluster).await? else {
            return Ok(Catalog::default());
        };
        let objects = serde_json::from_str(&objects)
            .map_err(|_| StoreError::Damaged("a catalog".to_owned()))?;
        Ok(Catalog {
            version: i64::try_from(version).unwrap_or(i64::MAX),
            objects,
        })
    }

    /// What was seen of a cluster; None if there is no such cluster.
    #[must_use]
    pub fn observed(&self, cluster: &ClusterId) -> Option<Arc<Observed>> {
        Some(self.observed_of(self.view().cluster(cluster)?))
    }

    /// What was seen of this cluster.
    #[must_use]
    pub fn observed_of(&self, cluster: &Record<Cluster>) -> Arc<Observed> {
        let observed = self.shared.observations.get(&cluster.value.id);
        observed.unwrap_or_else(|| Arc::new(Observed::nothing(cluster.value.created)))
    }

    /// What was seen of each cluster of which anything was.
    #[must_use]
    pub fn all_observed(&self) -> Arc<OrdMap<ClusterId, Arc<Observed>>> {
        self.shared.observations.all()
    }

    /// Tells of every turn at which what was seen became another, but for when that was.
    #[must_use]
    pub fn watch_seen(&self) -> watch::Receiver<u64> {
        self.shared.observations.watch()
    }

    /// Clusters of which something else was seen since this turn; those that are gone are not among them.
    #[must_use]
    pub fn seen_since(&self, turn: u64) -> Vec<ClusterId> {
        self.shared.observations.since(turn)
    }

    /// Keeps how it stands with a cluster; of one that is gone, nothing.
    pub fn set_status(&self, cluster: &ClusterId, status: ClusterStatus) {
        let Some(record) = self.view().cluster(cluster).cloned() else {
            return;
        };
        let start = || Observed::nothing(record.value.created);
        self.shared.observations.set_status(cluster, start, status);
    }

    /// Keeps that a source has reported facts, at this time in milliseconds since 1970.
    pub fn facts_reported(&self, cluster: &ClusterId, source: FactSource, at: i64) {
        self.observe(cluster, |observed| {
            observed.reported.insert(source, at);
        });
    }

    /// Keeps something that was seen of a cluster; of one that is gone, nothing. It is read back at once, and written down
    /// within a second; what is not there yet is lost when the hub is killed.
    pub fn observe(&self, cluster: &ClusterId, change: impl FnOnce(&mut Observed)) {
        let Some(record) = self.view().cluster(cluster).cloned() else {
            return;
        };
        let start = || Observed::nothing(record.value.created);
        self.shared.observations.change(cluster, start, change);
    }

    /// Waits for the changes under way, then closes the database.
    pub async fn close(&self) {
        self.end.cancel();
        self.tasks.wait().await;
    }
}

/// Until `end`; in the end all is written down, and the others know that this hub is gone.
async fn work(shared: Arc<Shared>, line: mpsc::Receiver<Box<dyn Job>>, end: CancellationToken) {
    let writing = async {
        writer::run(Arc::clone(&shared), line, end.clone()).await;
        // Nobody is left who could ask for anything.
        end.cancel();
    };
    tokio::join!(
        writing,
        writer::listen(Arc::clone(&shared), end.clone()),
        company::keep(Arc::clone(&shared), end.clone()),
    );
    company::leave(&shared).await;
    shared.backend.close().await;
}

fn meter(place: &Place) -> std::result::Result<Meter, Failure> {
    Meter::new().map_err(|error| unusable(place, &error))
}
