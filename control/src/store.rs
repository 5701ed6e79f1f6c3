//! What the hub must not forget. The registry is a value (a [`View`]), a change is a function from one value to the next
//! ([`Store::change`]), and a database makes it durable: one transaction, on the disk before it is answered, run to its end
//! even if its caller hangs up. It knows no tokens, only their hashes.
//!
//! Reading takes no lock and waits for nothing. What was seen of clusters ([`Observed`]) goes another way: it may be lost.

mod audience;
mod backend;
mod check;
pub(crate) mod claim;
mod company;
mod draft;
pub(crate) mod dump;
mod error;
mod foreign;
mod history;
mod journal;
mod meter;
mod observed;
mod peers;
mod place;
mod postgres;
mod queries;
mod record;
mod rows;
mod sight;
mod sqlite;
mod tables;
mod unusable;
mod view;
mod writer;

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use fairlead_api::{ClusterId, Failure, catalog::Catalog, resources::ClusterStatus};
use imbl::OrdMap;
use time::OffsetDateTime;
use tokio::{
    sync::{Notify, broadcast, mpsc, oneshot, watch},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    clock::Clock,
    model::{Cluster, FactSource, Tenant, Token, hex},
    random,
};
use backend::{Backend, DocumentRow, Loaded};
use error::Result;
use foreign::Foreign;
use meter::{Meter, Outcome};
use sight::Observations;
pub(crate) use unusable::unusable;
use writer::{Job, LINE, Pending};

pub use audience::Audience;
pub use company::Presented;
pub use draft::Draft;
pub use dump::{Tallies, Tally};
pub use error::{Refusal, StoreError};
pub use history::{
    Asked, Change, Changes, FactPlace, FactVersion, LogPlace, MAX_PAGE, Retention, Span, Tidied,
};
pub use journal::{Actor, Operation};
pub use observed::Observed;
pub use place::Place;
pub use record::{Kind, Record, Revision};
pub use view::{CatalogHead, View};
pub use writer::Done;

/// How long one writer waits for another program that holds the file.
const BUSY: Duration = Duration::from_secs(5);

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

/// What the writer and those who read have in common.
struct Shared {
    backend: Arc<dyn Backend>,
    clock: Clock,
    view: ArcSwap<View>,
    revision: watch::Sender<Revision>,
    observations: Observations,
    meter: Meter,
    /// Changes that other hubs have made.
    foreign: Foreign,
    /// Another hub may have changed something.
    nudge: Notify,
    /// Clusters whose sessions have to end.
    parted: broadcast::Sender<ClusterId>,
    /// Where this hub is, once it has begun.
    url: company::Url,
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
    pub(crate) async fn open_as_it_is(
        place: &Place,
        clock: Clock,
    ) -> std::result::Result<Self, Failure> {
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
            url: company::Url::new(),
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
    pub(crate) fn has_lost(&self) {
        self.shared.meter.changed(Outcome::Conflict);
    }

    /// What it counts of its own work.
    pub(crate) fn meter(&self) -> Meter {
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

impl Shared {
    fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// The database, for somebody who asks what memory does not know.
    fn asked(&self) -> &dyn Backend {
        self.meter.read();
        self.backend.as_ref()
    }

    /// Shows what was committed.
    fn publish<'a>(&self, view: View, written: impl IntoIterator<Item = &'a DocumentRow>) {
        if view.revision == self.view().revision {
            return;
        }
        let revision = view.revision;
        self.view.store(Arc::new(view));
        self.forget_deleted(written);
        self.revision.send_replace(revision);
    }

    /// A cluster that takes the id of a deleted one starts anew, whatever was seen last while that was being deleted.
    fn forget_deleted<'a>(&self, rows: impl IntoIterator<Item = &'a DocumentRow>) {
        let clusters = (rows.into_iter()).filter(|row| row.kind == Kind::Cluster);
        let gone = clusters.filter(|row| row.body.is_none() || row.version == 1);
        let gone: Vec<ClusterId> = gone.filter_map(|row| row.id.parse().ok()).collect();
        if !gone.is_empty() {
            self.observations.forget(&gone);
        }
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

async fn backend(
    place: &Place,
    busy: Duration,
    as_it_is: bool,
) -> std::result::Result<Arc<dyn Backend>, Failure> {
    match place {
        Place::File(path) => match sqlite::Sqlite::open(path, busy, as_it_is).await {
            Ok(file) => Ok(Arc::new(file)),
            Err(error) => Err(unusable(place, error.as_ref())),
        },
        Place::Postgres(it) => {
            let options = it.options.clone();
            match postgres::Postgres::open(options, as_it_is).await {
                Ok(database) => Ok(Arc::new(database)),
                Err(error) => Err(unusable(place, error.as_ref())),
            }
        }
    }
}

/// Whether no program has used this store yet.
///
/// # Errors
/// `FL-4103` if it cannot be read, `FL-5104` if its database cannot be reached.
pub(crate) async fn is_new(place: &Place) -> std::result::Result<bool, Failure> {
    match place {
        Place::File(path) => match std::fs::metadata(path) {
            Ok(about) => Ok(about.len() == 0),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(unusable(place, &error)),
        },
        Place::Postgres(it) => {
            let new = postgres::is_new(it.options.clone()).await;
            new.map_err(|error| unusable(place, &error))
        }
    }
}

/// A database that is there; nothing is made and nothing brought up to date.
async fn as_it_is(place: &Place) -> std::result::Result<Arc<dyn Backend>, Failure> {
    backend(place, BUSY, true).await
}

async fn up_to_date(place: &Place) -> std::result::Result<Arc<dyn Backend>, Failure> {
    backend(place, BUSY, false).await
}

fn meter(place: &Place) -> std::result::Result<Meter, Failure> {
    Meter::new().map_err(|error| unusable(place, &error))
}

/// The newest migration that this program knows.
fn newest(known: &sqlx::migrate::Migrator) -> i64 {
    let versions = known.iter().map(|migration| migration.version);
    versions.max().unwrap_or_default()
}

async fn whole(backend: &dyn Backend) -> Result<View> {
    let loaded = backend.load(Revision(0)).await?;
    with(View::default(), &loaded.unwrap_or_default())
}

/// The view with what was loaded.
fn with(mut view: View, loaded: &Loaded) -> Result<View> {
    view.revision = loaded.revision;
    for row in loaded.deleted.iter().chain(&loaded.documents) {
        match row.kind {
            Kind::Tenant => view.take::<Tenant>(row)?,
            Kind::Cluster => view.take::<Cluster>(row)?,
            Kind::Token => view.take::<Token>(row)?,
            Kind::Catalog => {}
        }
    }
    let gone = loaded
        .deleted
        .iter()
        .filter(|row| row.kind == Kind::Cluster);
    for id in gone.filter_map(|row| row.id.parse::<ClusterId>().ok()) {
        view.catalogs.remove(&id);
    }
    for row in &loaded.catalogs {
        let id = row
            .id
            .parse()
            .map_err(|_| StoreError::Damaged(row.id.clone()))?;
        let head = CatalogHead {
            version: row.version,
            revision: row.revision,
        };
        view.catalogs.insert(id, head);
    }
    Ok(view)
}

/// Milliseconds since 1970.
pub(crate) fn millis(at: OffsetDateTime) -> i64 {
    i64::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

/// Times are kept to the millisecond: what is answered at creation is what is answered ever after.
pub(crate) fn whole_millis(at: OffsetDateTime) -> OffsetDateTime {
    from_millis(millis(at)).unwrap_or(at)
}

fn from_millis(millis: i64) -> Result<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000)
        .map_err(|_| StoreError::Damaged(millis.to_string()))
}
