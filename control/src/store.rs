//! What the hub must not forget, in SQLite. One writer, several readers (WAL); every change is one transaction, runs to
//! its end even if its caller hangs up, and is on the disk before it is answered. It knows no tokens, only their hashes.
//!
//! What every request needs (who is this token, whose is this cluster) is kept in memory as well, changed by the writer
//! alone and in the order of its commits.

mod bootstraps;
mod catalogs;
mod clusters;
mod index;
mod tenants;
mod tokens;
mod uids;

use std::{future::Future, path::Path, str::FromStr, sync::Arc, time::Duration};

use fairlead_api::{Code, Failure};
use sqlx::{
    Sqlite, SqlitePool, Transaction,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use time::OffsetDateTime;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio_util::task::TaskTracker;
use tracing::error;

pub use bootstraps::{Bootstrap, Claim, Enrolled, SpendError};
pub use clusters::{ClusterRow, NewCluster};
pub use index::{Home, TokenRow};

/// How long one writer waits for another program that holds the file.
const BUSY: Duration = Duration::from_secs(5);
const READERS: u32 = 4;

/// Handle to the store; clones name the same.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
    tasks: TaskTracker,
}

struct Inner {
    /// One connection, synced on every commit: a spent token stays spent when the power fails.
    writer: SqlitePool,
    /// One connection for what may be told again, synced by the next checkpoint only.
    reporter: SqlitePool,
    readers: SqlitePool,
    turn: Arc<Mutex<()>>,
    index: index::Index,
}

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("it exists already, or has changed meanwhile")]
    Conflict,
    #[error("there is no such thing")]
    Missing,
    #[error("it is still in use")]
    InUse,
    #[error("the store failed")]
    Sqlite(#[source] sqlx::Error),
    #[error("the store holds {0:?}, which nothing of ours has written")]
    Damaged(String),
    #[error("the change ended before it was done")]
    CutOff,
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        use sqlx::error::ErrorKind;
        match error.as_database_error().map(|error| error.kind()) {
            Some(ErrorKind::UniqueViolation) => StoreError::Conflict,
            Some(ErrorKind::ForeignKeyViolation) => StoreError::InUse,
            _ => StoreError::Sqlite(error),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match &error {
            StoreError::Conflict => Code::Conflict.into(),
            StoreError::Missing => Code::NotFound.into(),
            StoreError::InUse => Code::InUse.into(),
            StoreError::Sqlite(_) | StoreError::Damaged(_) | StoreError::CutOff => {
                // What SQLite says is for whoever runs the hub, not for whoever asked.
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                error!(%error, cause, code = %Code::Store, "store failed");
                Code::Store.into()
            }
        }
    }
}

type Result<T> = std::result::Result<T, StoreError>;

impl Store {
    /// Opens the file, makes it where it is missing, and brings its tables up to date.
    ///
    /// # Errors
    /// `FL-4103` if it is damaged, of a newer version, or cannot be written.
    pub async fn open(path: &Path) -> std::result::Result<Self, Failure> {
        Store::open_with(path, BUSY).await
    }

    /// As [`Store::open`]; a writer waits for other programs for `busy` only.
    ///
    /// # Errors
    /// `FL-4103`
    pub async fn open_with(path: &Path, busy: Duration) -> std::result::Result<Self, Failure> {
        Store::try_open(path, busy).await.map_err(|error| {
            Failure::because(Code::DataDir, format_args!("{}: {error}", path.display()))
        })
    }

    async fn try_open(
        path: &Path,
        busy: Duration,
    ) -> std::result::Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .foreign_keys(true)
            .busy_timeout(busy)
            .journal_mode(SqliteJournalMode::Wal);
        let pool = |connections, synchronous, read_only| {
            let options = options
                .clone()
                .synchronous(synchronous)
                .read_only(read_only);
            SqlitePoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(busy * 2)
                .connect_with(options)
        };
        let writer = pool(1, SqliteSynchronous::Full, false).await?;
        sqlx::migrate!("./migrations").run(&writer).await?;
        let index = index::Index::load(&writer).await?;
        Ok(Store {
            inner: Arc::new(Inner {
                reporter: pool(1, SqliteSynchronous::Normal, false).await?,
                readers: pool(READERS, SqliteSynchronous::Full, true).await?,
                writer,
                turn: Arc::default(),
                index,
            }),
            tasks: TaskTracker::new(),
        })
    }

    /// Waits for the changes under way, then closes the file.
    pub async fn close(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.inner.readers.close().await;
        self.inner.reporter.close().await;
        self.inner.writer.close().await;
    }

    /// Runs a change in a task of its own: a caller that hangs up in the middle of a commit must not leave memory and
    /// disk apart.
    async fn owned<T, E, F, Work>(&self, work: Work) -> std::result::Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: Future<Output = std::result::Result<T, E>> + Send + 'static,
        Work: FnOnce(Arc<Inner>) -> F,
    {
        let task = self.tasks.spawn(work(Arc::clone(&self.inner)));
        task.await
            .unwrap_or_else(|_| Err(E::from(StoreError::CutOff)))
    }
}

/// A change under way; dropped, it is undone.
struct Change {
    tx: Transaction<'static, Sqlite>,
    turn: OwnedMutexGuard<()>,
}

impl Inner {
    async fn begin(&self) -> Result<Change> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        // Takes the file's lock at once: a transaction that first reads and then writes could not get it any more.
        let tx = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        Ok(Change { tx, turn })
    }
}

impl Change {
    /// The turn is given up only when the memory has been changed as well.
    async fn commit(self) -> Result<OwnedMutexGuard<()>> {
        self.tx.commit().await?;
        Ok(self.turn)
    }
}

/// Milliseconds since 1970.
pub(crate) fn millis(at: OffsetDateTime) -> i64 {
    i64::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

/// Times are kept to the millisecond: what is answered at creation is what is answered ever after.
pub(crate) fn whole_millis(at: OffsetDateTime) -> OffsetDateTime {
    time(millis(at)).unwrap_or(at)
}

fn time(millis: i64) -> Result<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000)
        .map_err(|_| StoreError::Damaged(millis.to_string()))
}

fn parse<T: FromStr>(text: &str) -> Result<T> {
    text.parse()
        .map_err(|_| StoreError::Damaged(text.to_owned()))
}
