//! The store's rows in a file of SQLite: WAL, one writer, several readers, synced on every commit.
//!
//! The queries are checked by the contract's tests, not by the compiler: two dialects have none in common to check.

mod moves {
    crate::store::tables::moves!(
        sqlx::Sqlite,
        snapshot: "BEGIN",
        write: "BEGIN IMMEDIATE",
        patient: [],
        array: "json_array",
        source: "(SELECT value AS item FROM json_each($1)) AS source"
    );
}

mod reads {
    crate::store::queries::reads!(sqlx::Sqlite, "BEGIN");
}

use std::{path::Path, time::Duration};

use async_trait::async_trait;
use fairlead_api::ClusterId;
use sqlx::{
    Connection, SqliteConnection, SqlitePool,
    migrate::Migrator,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::sync::mpsc;

use super::{
    Asked, Change, FactVersion, Revision, Span,
    backend::{Backend, Batch, Beat, Committed, DocumentRow, Ledger, Loaded, Page, SeenRow},
    error::Result,
    millis, of_this_version,
    peers::HubRow,
    rows::{int, uint},
    tables::Part,
};

const READERS: u32 = 4;
/// How long a connection may take, on a machine that has much else to do, too.
const ACQUIRE: Duration = Duration::from_secs(10);

/// In their order; a file of a newer version is refused.
static MIGRATIONS: Migrator = sqlx::migrate!("./migrations/sqlite");

pub(super) struct Sqlite {
    /// One connection, synced on every commit: a spent token stays spent when the power fails.
    writer: SqlitePool,
    /// One connection for what may be told again, synced by the next checkpoint only.
    reporter: SqlitePool,
    readers: SqlitePool,
}

impl Sqlite {
    pub(super) async fn open(
        path: &Path,
        busy: Duration,
        as_it_is: bool,
    ) -> std::result::Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(!as_it_is)
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
                .acquire_timeout(busy + ACQUIRE)
                .connect_with(options)
        };
        let writer = pool(1, SqliteSynchronous::Full, false).await?;
        if as_it_is {
            let there = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations");
            of_this_version(&MIGRATIONS, there.fetch_one(&writer).await?)?;
        } else {
            MIGRATIONS.run(&writer).await?;
        }
        Ok(Sqlite {
            reporter: pool(1, SqliteSynchronous::Normal, false).await?,
            readers: pool(READERS, SqliteSynchronous::Full, true).await?,
            writer,
        })
    }
}

#[async_trait]
impl Backend for Sqlite {
    async fn load(&self, since: Revision) -> Result<Option<Loaded>> {
        reads::load(&self.readers, since).await
    }

    async fn commit(&self, batch: &Batch, on: Revision) -> Result<Committed> {
        let mut connection = self.writer.acquire().await?;
        let done = commit(&mut connection, batch, on).await;
        if done.is_err() {
            // Where SQLite has undone a transaction by itself, as on a full disk, the connection does not know.
            connection.close_on_drop();
        }
        done
    }

    async fn catalog(&self, cluster: &ClusterId) -> Result<Option<(u64, String)>> {
        reads::catalog(&self.readers, cluster).await
    }

    async fn keys(&self) -> Result<Option<String>> {
        reads::keys(&self.readers).await
    }

    async fn keep_keys(&self, sealed: &str) -> Result<bool> {
        reads::keep_keys(&self.writer, sealed).await
    }

    /// The file is this hub's.
    fn is_shared(&self) -> bool {
        false
    }

    async fn seen(&self, _since: i64, _again: &[String]) -> Result<Vec<SeenRow>> {
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
            connection.close_on_drop();
        }
        done
    }

    async fn hubs(&self) -> Result<Vec<HubRow>> {
        Ok(Vec::new())
    }

    async fn beat(&self, _hub: &str, _url: &str, _beat: Beat<'_>) -> Result<()> {
        Ok(())
    }

    async fn changes(&self, since: Revision, limit: u32) -> Result<Page> {
        reads::changes(&self.readers, since, limit).await
    }

    async fn audit(&self, asked: &Asked, before: Revision, limit: u32) -> Result<Vec<Change>> {
        reads::audit(&self.readers, asked, before, limit).await
    }

    async fn compact(&self, before: i64, keep: u64, slice: u32) -> Result<u64> {
        reads::compact(&self.reporter, before, keep, slice).await
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

    async fn facts_changed(&self, name: &str, span: Span, limit: u32) -> Result<Vec<FactVersion>> {
        reads::facts_changed(&self.readers, name, span, limit).await
    }

    async fn fact_versions_since(
        &self,
        revisions: (Revision, Revision),
        at: (i64, i64),
    ) -> Result<Vec<FactVersion>> {
        reads::fact_versions_since(&self.readers, revisions, at).await
    }

    async fn forget_facts(&self, before: i64, slice: u32) -> Result<u64> {
        reads::forget_facts(&self.reporter, before, slice).await
    }

    async fn integrity(&self) -> Result<Vec<String>> {
        let said = sqlx::query_scalar("PRAGMA integrity_check");
        let mut said: Vec<String> = said.fetch_all(&self.readers).await?;
        said.retain(|line| line != "ok");
        Ok(said)
    }

    async fn export(&self, to: mpsc::Sender<Part>) -> Result<()> {
        moves::export(&self.readers, to).await
    }

    async fn import(&self, from: mpsc::Receiver<Part>) -> Result<()> {
        moves::import(&self.writer, from).await
    }

    async fn ledger(&self) -> Result<Ledger> {
        reads::ledger(&self.readers).await
    }

    /// Nobody else writes: the file is this hub's.
    async fn moved(&self) {
        std::future::pending().await
    }

    async fn revision(&self) -> Result<Revision> {
        let read = sqlx::query_scalar("SELECT revision FROM revision");
        Ok(Revision(uint(read.fetch_one(&self.readers).await?)?))
    }

    async fn close(&self) {
        self.readers.close().await;
        self.reporter.close().await;
        self.writer.close().await;
    }
}

async fn commit(
    connection: &mut SqliteConnection,
    batch: &Batch,
    on: Revision,
) -> Result<Committed> {
    // Takes the file's lock at once: a transaction that first reads and then writes could not get it any more.
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    let moved = sqlx::query("UPDATE revision SET revision = ? WHERE revision = ?")
        .bind(int(batch.revision.0)?)
        .bind(int(on.0)?)
        .execute(&mut *tx)
        .await?;
    if moved.rows_affected() == 0 {
        return Ok(Committed::Behind);
    }
    for cluster in &batch.gone {
        forget(&mut tx, cluster).await?;
    }
    for row in batch.documents.values() {
        put_document(&mut tx, row).await?;
    }
    for row in batch.catalogs.values() {
        put_catalog(&mut tx, row).await?;
    }
    for row in &batch.log {
        put_change(&mut tx, row).await?;
    }
    for row in &batch.facts {
        put_fact(&mut tx, row).await?;
    }
    tx.commit().await?;
    Ok(Committed::Done)
}

async fn observe(
    connection: &mut SqliteConnection,
    rows: &[(String, String)],
    folded: &[(String, String)],
) -> Result<()> {
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    for (cluster, body) in rows {
        sqlx::query(
            "INSERT INTO observed (cluster, hub, body)
             SELECT ?1, '', ?2 WHERE EXISTS (SELECT 1 FROM documents WHERE kind = 'cluster' AND id = ?1)
             ON CONFLICT (cluster, hub) DO UPDATE SET body = ?2",
        )
        .bind(cluster)
        .bind(body)
        .execute(&mut *tx)
        .await?;
    }
    for (cluster, hub) in folded {
        sqlx::query("DELETE FROM observed WHERE cluster = ? AND hub = ?")
            .bind(cluster)
            .bind(hub)
            .execute(&mut *tx)
            .await?;
    }
    tx.commit().await?;
    Ok(())
}

/// What hangs on a cluster.
async fn forget(tx: &mut SqliteConnection, cluster: &str) -> Result<()> {
    for query in [
        "DELETE FROM catalogs WHERE cluster = ?",
        "DELETE FROM observed WHERE cluster = ?",
    ] {
        sqlx::query(query).bind(cluster).execute(&mut *tx).await?;
    }
    Ok(())
}

async fn put_document(tx: &mut SqliteConnection, row: &DocumentRow) -> Result<()> {
    let kind = row.kind.as_str();
    let Some(body) = &row.body else {
        sqlx::query("DELETE FROM documents WHERE kind = ? AND id = ?")
            .bind(kind)
            .bind(&row.id)
            .execute(&mut *tx)
            .await?;
        return Ok(());
    };
    sqlx::query(
        "INSERT INTO documents (kind, id, version, revision, body) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (kind, id) DO UPDATE SET version = ?3, revision = ?4, body = ?5",
    )
    .bind(kind)
    .bind(&row.id)
    .bind(int(row.version)?)
    .bind(int(row.revision.0)?)
    .bind(body)
    .execute(tx)
    .await?;
    Ok(())
}

async fn put_catalog(tx: &mut SqliteConnection, row: &DocumentRow) -> Result<()> {
    sqlx::query(
        "INSERT INTO catalogs (cluster, version, revision, objects) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (cluster) DO UPDATE SET version = ?2, revision = ?3, objects = ?4",
    )
    .bind(&row.id)
    .bind(int(row.version)?)
    .bind(int(row.revision.0)?)
    .bind(&row.body)
    .execute(tx)
    .await?;
    Ok(())
}

async fn put_change(tx: &mut SqliteConnection, row: &Change) -> Result<()> {
    sqlx::query(
        "INSERT INTO changes (revision, part, at, actor, kind, id, tenant, operation, before, after)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(int(row.revision.0)?)
    .bind(row.part)
    .bind(millis(row.at))
    .bind(&row.actor)
    .bind(row.kind.as_str())
    .bind(&row.id)
    .bind(row.tenant.as_ref().map(fairlead_api::TenantId::as_str))
    .bind(row.operation.as_str())
    .bind(row.before.as_ref().map(ToString::to_string))
    .bind(row.after.as_ref().map(ToString::to_string))
    .execute(tx)
    .await?;
    Ok(())
}

async fn put_fact(tx: &mut SqliteConnection, row: &FactVersion) -> Result<()> {
    sqlx::query(
        "INSERT INTO fact_history (cluster, name, dynamic, at, revision, source, observed, value)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(row.cluster.as_str())
    .bind(&row.name)
    .bind(row.dynamic)
    .bind(row.at)
    .bind(int(row.revision.0)?)
    .bind(row.source.as_str())
    .bind(row.observed)
    .bind(row.value.as_ref().map(ToString::to_string))
    .execute(tx)
    .await?;
    Ok(())
}
