//! The store's rows in a SQLite file: WAL, one writer, several readers, synced on every commit.
//!
//! Queries are checked by the contract tests, not by the compiler: sqlx cannot check one text
//! against two dialects.

mod commit;
mod script;
mod turns;

mod moves {
    crate::tables::moves!(
        sqlx::Sqlite,
        snapshot: "BEGIN",
        write: "BEGIN IMMEDIATE",
        settings: [],
        dialect: JsonDialect {
            array: "json_array",
            source: "(SELECT value AS item FROM json_each($1)) AS source",
            to_hex: "lower(hex({}))",
            from_hex: "unhex({})",
        }
    );
}

mod reads {
    crate::queries::reads!(sqlx::Sqlite, "BEGIN");
}

use std::{
    fs::{OpenOptions, Permissions, set_permissions},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
    time::Duration,
};

use async_trait::async_trait;
use fairlead_api::ClusterId;
use sqlx::{
    SqlitePool,
    migrate::Migrator,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::sync::mpsc;

use crate::{
    backend::{
        Backend, ChangeBatch, Committed, Heartbeat, LoadedRows, LogPage, LogSummary, ObservedRow,
        OwnHub,
    },
    connections::{Connections, SqliteConnections},
    error::Result,
    heartbeats::HubRow,
    history::{Asked, Change, FactPlace, FactVersion, LogPlace, Span},
    revision::Revision,
    rows::uint,
    schema::{SchemaMismatch, VERSION, newest},
    tables::DumpPart,
};
use commit::{Committer, observe, record_token_uses};
use turns::WriteTurns;
pub use turns::{SqliteWrite, SqliteWriter};

const MAX_READERS: u32 = 4;
/// Deadline for a pooled connection, generous for a busy machine.
const ACQUIRE_DEADLINE: Duration = Duration::from_secs(10);

/// A file of a newer version is refused.
static MIGRATIONS: Migrator = sqlx::migrate!("./migrations/sqlite");

pub(super) struct SqliteBackend {
    /// Synced on every commit: a spent token stays spent after a power failure.
    committer: Committer,
    /// Connection for other writes that must be durable on return.
    writer: SqliteWriter,
    /// Connection for observations, synced by the next checkpoint only.
    reporter: SqliteWriter,
    readers: SqlitePool,
    turns: WriteTurns,
}

impl SqliteBackend {
    pub(super) async fn open(
        path: &Path,
        busy: Duration,
        as_it_is: bool,
    ) -> std::result::Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        if !as_it_is {
            create_private(path)?;
        }
        let options = SqliteConnectOptions::new()
            .filename(path)
            .foreign_keys(true)
            .busy_timeout(busy)
            .journal_mode(SqliteJournalMode::Wal);
        let synced = |synchronous| options.clone().synchronous(synchronous);
        let pool = |connections, synchronous, read_only| {
            let options = synced(synchronous).read_only(read_only);
            SqlitePoolOptions::new()
                .max_connections(connections)
                // A file never hangs up, and the check costs a round trip to the connection's thread.
                .test_before_acquire(false)
                .acquire_timeout(busy + ACQUIRE_DEADLINE)
                .connect_with(options)
        };
        let writer = pool(1, SqliteSynchronous::Full, false).await?;
        let there = reads::tables(&writer).await?;
        match there {
            Some((version, program)) if as_it_is || version > newest(&MIGRATIONS) => {
                SchemaMismatch::check(version, newest(&MIGRATIONS), program)?;
            }
            None if as_it_is => return Err(SchemaMismatch::Missing.into()),
            _ => MIGRATIONS.run(&writer).await?,
        }
        if !as_it_is {
            reads::opened_by(&writer, VERSION).await?;
        }
        let turns = WriteTurns::new(busy + ACQUIRE_DEADLINE);
        let reporter = pool(1, SqliteSynchronous::Normal, false).await?;
        Ok(SqliteBackend {
            committer: Committer::new(synced(SqliteSynchronous::Full), busy + ACQUIRE_DEADLINE),
            reporter: SqliteWriter::new(reporter, turns.clone()),
            readers: pool(MAX_READERS, SqliteSynchronous::Full, true).await?,
            writer: SqliteWriter::new(writer, turns.clone()),
            turns,
        })
    }
}

/// Creates the file unless it exists, for its owner only. SQLite gives its log and its index the same mode.
fn create_private(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false);
    options.mode(0o600).open(path)?;
    set_permissions(path, Permissions::from_mode(0o600))
}

#[async_trait]
impl Backend for SqliteBackend {
    async fn load(&self, since: Revision) -> Result<Option<LoadedRows>> {
        reads::load(&self.readers, since).await
    }

    async fn commit(&self, batch: &ChangeBatch, on: Revision) -> Result<Committed> {
        let _turn = self.turns.take().await?;
        self.committer.commit(batch, on).await
    }

    async fn catalog(&self, cluster: &ClusterId) -> Result<Option<(u64, String)>> {
        reads::catalog(&self.readers, cluster).await
    }

    async fn keys(&self) -> Result<Option<String>> {
        reads::keys(&self.readers).await
    }

    async fn keep_keys(&self, sealed: &str) -> Result<bool> {
        let _turn = self.turns.take().await?;
        reads::keep_keys(&self.writer.pool, sealed).await
    }

    async fn replace_keys(&self, old: &str, new: &str) -> Result<bool> {
        let _turn = self.turns.take().await?;
        reads::replace_keys(&self.writer.pool, old, new).await
    }

    fn connections(&self) -> Connections {
        Connections::Sqlite(SqliteConnections {
            durable: self.writer.clone(),
            unsynced: self.reporter.clone(),
            readers: self.readers.clone(),
        })
    }

    /// The file belongs to this hub.
    fn is_shared(&self) -> bool {
        false
    }

    async fn seen(&self, _since: i64, _again: &[String]) -> Result<Vec<ObservedRow>> {
        let read = sqlx::query_as("SELECT cluster, hub, 0 AS seq, body FROM observed");
        Ok(read.fetch_all(&self.readers).await?)
    }

    async fn observe(
        &self,
        _hub: &str,
        rows: &[(String, String)],
        folded: &[(String, String)],
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut connection = self.reporter.acquire().await?;
        let done = observe(&mut connection, rows, folded).await;
        if done.is_err() {
            // After SQLite rolled back a transaction itself, as on a full disk, sqlx's connection
            // state is wrong.
            connection.close_on_drop();
        }
        done
    }

    async fn token_uses(&self) -> Result<Vec<(String, i64)>> {
        reads::token_uses(&self.readers).await
    }

    async fn record_token_uses(&self, uses: &[(String, i64)]) -> Result<()> {
        let mut connection = self.reporter.acquire().await?;
        let done = record_token_uses(&mut connection, uses).await;
        if done.is_err() {
            connection.close_on_drop();
        }
        done
    }

    async fn hubs(&self) -> Result<Vec<HubRow>> {
        Ok(Vec::new())
    }

    async fn beat(&self, _hub: OwnHub<'_>, _beat: Heartbeat<'_>) -> Result<()> {
        Ok(())
    }

    async fn changes(&self, since: Revision, limit: u32) -> Result<LogPage> {
        reads::changes(&self.readers, since, limit).await
    }

    async fn audit(&self, asked: &Asked, before: LogPlace, limit: u32) -> Result<Vec<Change>> {
        reads::audit(&self.readers, asked, before, limit).await
    }

    async fn compact(&self, before: i64, keep: u64, slice: u32) -> Result<u64> {
        let _turn = self.turns.take().await?;
        reads::compact(&self.reporter.pool, before, keep, slice).await
    }

    async fn forget_acts(&self, before: i64, slice: u32) -> Result<u64> {
        let _turn = self.turns.take().await?;
        reads::forget_acts(&self.reporter.pool, before, slice).await
    }

    async fn facts_at(
        &self,
        cluster: &ClusterId,
        name: Option<&str>,
        at: i64,
    ) -> Result<Vec<FactVersion>> {
        reads::facts_at(&self.readers, cluster, name, at).await
    }

    async fn fact_versions(
        &self,
        cluster: &ClusterId,
        name: Option<&str>,
        span: Span,
        limit: u32,
    ) -> Result<Vec<FactVersion>> {
        reads::fact_versions(&self.readers, cluster, name, span, limit).await
    }

    async fn facts_changed(
        &self,
        name: &str,
        span: Span,
        behind: Option<&FactPlace>,
        limit: u32,
    ) -> Result<Vec<FactVersion>> {
        reads::facts_changed(&self.readers, name, span, behind, limit).await
    }

    async fn fact_versions_since(
        &self,
        revisions: (Revision, Revision),
        at: (i64, i64),
    ) -> Result<Vec<FactVersion>> {
        reads::fact_versions_since(&self.readers, revisions, at).await
    }

    async fn forget_facts(&self, before: i64, slice: u32) -> Result<u64> {
        let _turn = self.turns.take().await?;
        reads::forget_facts(&self.reporter.pool, before, slice).await
    }

    async fn integrity(&self) -> Result<Vec<String>> {
        let defects = sqlx::query_scalar("PRAGMA integrity_check");
        let mut defects: Vec<String> = defects.fetch_all(&self.readers).await?;
        defects.retain(|line| line != "ok");
        Ok(defects)
    }

    async fn export(&self, to: mpsc::Sender<DumpPart>) -> Result<()> {
        moves::export(&self.readers, to).await
    }

    async fn import(&self, from: mpsc::Receiver<DumpPart>) -> Result<()> {
        let _turn = self.turns.take().await?;
        moves::import(&self.writer.pool, from).await
    }

    async fn log_summary(&self) -> Result<LogSummary> {
        reads::log_summary(&self.readers).await
    }

    /// Never: no other hub writes to this file.
    async fn remote_commit(&self) {
        std::future::pending().await
    }

    async fn revision(&self) -> Result<Revision> {
        let read = sqlx::query_scalar("SELECT revision FROM revision");
        Ok(Revision(uint(read.fetch_one(&self.readers).await?)?))
    }

    async fn close(&self) {
        self.readers.close().await;
        self.reporter.pool.close().await;
        self.committer.close().await;
        self.writer.pool.close().await;
    }
}
