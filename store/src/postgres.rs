//! The store's rows in PostgreSQL, 15 or newer, for several hubs.
//!
//! Each change locks the row with the revision and continues from there, or fails because another
//! hub committed first. During an outage of the server all operations wait within a fixed budget.
//!
//! A lost answer to a commit is resolved by the commit's nonce.

mod hubs;
mod leader;
mod write;

use std::{future::Future, time::Duration};

use async_trait::async_trait;
use fairlead_api::ClusterId;
use sqlx::{
    Connection, PgConnection, PgPool,
    migrate::Migrator,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};
use tokio::{
    sync::{Mutex, mpsc},
    time::{sleep, timeout},
};

use self::leader::Leader;
use crate::{
    backend::{
        Backend, ChangeBatch, Committed, Heartbeat, LoadedRows, LogPage, LogSummary, ObservedRow,
        OwnHub,
    },
    connections::Connections,
    error::{Result, StoreError, cannot_be_reached, has_ended},
    heartbeats::HubRow,
    history::{Asked, Change, FactPlace, FactVersion, LogPlace, Span},
    parts::PartRow,
    random,
    revision::Revision,
    rows::uint,
    schema::{SchemaMismatch, VERSION, newest},
    tables::DumpPart,
};

mod moves {
    crate::tables::moves!(
        sqlx::Postgres,
        snapshot: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        write: "BEGIN",
        settings: [
            "SET LOCAL statement_timeout = 0",
            "SET LOCAL idle_in_transaction_session_timeout = 0"
        ],
        dialect: JsonDialect {
            array: "json_build_array",
            source: "json_array_elements(CAST($1 AS JSON)) AS source (item)",
            to_hex: "encode({}, 'hex')",
            from_hex: "decode({}, 'hex')",
        }
    );
}

mod reads {
    crate::queries::reads!(
        sqlx::Postgres,
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    );
}

const MAX_CONNECTIONS: u32 = 8;
/// Wait budget for an unreachable server.
const WAIT_BUDGET: Duration = Duration::from_secs(5);
/// Delay between retries.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// Poll interval of the revision, in case a notification is lost.
const REVISION_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Limits of a statement, and of an idle transaction that holds the row.
const SESSION_LIMITS: [(&str, &str); 3] = [
    ("statement_timeout", "60s"),
    ("lock_timeout", "5s"),
    ("idle_in_transaction_session_timeout", "10s"),
];

/// A database of a newer version is refused.
static MIGRATIONS: Migrator = sqlx::migrate!("./migrations/postgres");

pub(super) struct PostgresBackend {
    pool: PgPool,
    listener: Mutex<Option<PgListener>>,
    leader: Leader,
}

impl PostgresBackend {
    pub(super) async fn open(
        options: PgConnectOptions,
        as_it_is: bool,
    ) -> std::result::Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        connect(&options).await?;
        let pool = PgPoolOptions::new()
            .max_connections(MAX_CONNECTIONS)
            .acquire_timeout(WAIT_BUDGET)
            .connect_lazy_with(options.options(SESSION_LIMITS));
        let there = reads::tables(&pool).await?;
        match there {
            Some((version, program)) if as_it_is || version > newest(&MIGRATIONS) => {
                SchemaMismatch::check(version, newest(&MIGRATIONS), program)?;
            }
            None if as_it_is => return Err(SchemaMismatch::Missing.into()),
            _ => MIGRATIONS.run(&pool).await?,
        }
        if !as_it_is {
            reads::opened_by(&pool, VERSION).await?;
        }
        Ok(PostgresBackend {
            pool,
            listener: Mutex::new(None),
            leader: Leader::default(),
        })
    }

    /// Waits for another hub's notification of a commit.
    async fn notified(&self) -> Result<()> {
        let mut slot = self.listener.lock().await;
        let listener = match slot.take() {
            Some(listener) => listener,
            None => {
                let mut listener = PgListener::connect_with(&self.pool).await?;
                listener.listen(write::NOTIFY_CHANNEL).await?;
                listener
            }
        };
        slot.insert(listener).recv().await?;
        Ok(())
    }
}

/// Connects within the wait budget. Unlike the pool's timeout, this reports the cause.
async fn connect(options: &PgConnectOptions) -> std::result::Result<(), sqlx::Error> {
    let mut cause = None;
    let trying = async {
        loop {
            match PgConnection::connect_with(options).await {
                Ok(connection) => return connection.close().await,
                Err(error) if cannot_be_reached(&error) => cause = Some(error),
                Err(error) => return Err(error),
            }
            sleep(RETRY_DELAY).await;
        }
    };
    let reached = timeout(WAIT_BUDGET, trying).await;
    let silent = || sqlx::Error::Io(std::io::ErrorKind::TimedOut.into());
    reached.unwrap_or_else(|_| Err(cause.unwrap_or_else(silent)))
}

/// Clock of the server, in milliseconds since 1970.
pub(crate) async fn clock(pool: &PgPool) -> Result<i64> {
    let query = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)";
    Ok(sqlx::query_scalar(query).fetch_one(pool).await?)
}

/// True if no program has used the database yet.
pub(super) async fn is_new(options: PgConnectOptions) -> std::result::Result<bool, sqlx::Error> {
    connect(&options).await?;
    let pool = PgPoolOptions::new().max_connections(1);
    let pool = pool.connect_with(options).await?;
    let there = reads::tables(&pool).await;
    pool.close().await;
    Ok(there?.is_none())
}

fn is_away(error: &StoreError) -> bool {
    let StoreError::Failed(error) = error else {
        return false;
    };
    has_ended(error) || cannot_be_reached(error)
}

/// Retries until the server answers, or the wait budget is spent.
async fn with_retries<T, F: Future<Output = Result<T>>>(work: impl Fn() -> F) -> Result<T> {
    let trying = async {
        loop {
            match work().await {
                Err(error) if is_away(&error) => sleep(RETRY_DELAY).await,
                done => return done,
            }
        }
    };
    timeout(WAIT_BUDGET, trying)
        .await
        .unwrap_or(Err(StoreError::Away))
}

#[async_trait]
impl Backend for PostgresBackend {
    async fn load(&self, since: Revision) -> Result<Option<LoadedRows>> {
        // No deadline: loading everything may take long.
        reads::load(&self.pool, since).await
    }

    async fn commit(&self, batch: &ChangeBatch, on: Revision) -> Result<Committed> {
        let nonce = random::bytes().map_err(|_| StoreError::CutOff)?;
        let nonce = i64::from_ne_bytes(nonce);
        with_retries(|| write::commit(&self.pool, batch, on, nonce)).await
    }

    async fn catalog(&self, cluster: &ClusterId) -> Result<Option<(u64, String)>> {
        with_retries(|| reads::catalog(&self.pool, cluster)).await
    }

    async fn keys(&self) -> Result<Option<String>> {
        with_retries(|| reads::keys(&self.pool)).await
    }

    async fn keep_keys(&self, sealed: &str) -> Result<bool> {
        reads::keep_keys(&self.pool, sealed).await
    }

    async fn replace_keys(&self, old: &str, new: &str) -> Result<bool> {
        reads::replace_keys(&self.pool, old, new).await
    }

    fn connections(&self) -> Connections {
        Connections::Postgres(self.pool.clone())
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn seen(&self, since: i64, again: &[String]) -> Result<Vec<ObservedRow>> {
        with_retries(|| hubs::seen(&self.pool, since, again)).await
    }

    async fn observe(
        &self,
        hub: &str,
        rows: &[(String, String)],
        folded: &[(String, String)],
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let written = timeout(WAIT_BUDGET, hubs::observe(&self.pool, hub, rows, folded));
        written.await.unwrap_or(Err(StoreError::Away))
    }

    async fn token_uses(&self) -> Result<Vec<(String, i64)>> {
        with_retries(|| reads::token_uses(&self.pool)).await
    }

    async fn record_token_uses(&self, uses: &[(String, i64)]) -> Result<()> {
        let written = timeout(WAIT_BUDGET, hubs::record_token_uses(&self.pool, uses));
        written.await.unwrap_or(Err(StoreError::Away))
    }

    async fn hubs(&self) -> Result<Vec<HubRow>> {
        with_retries(|| hubs::all(&self.pool)).await
    }

    async fn beat(&self, hub: OwnHub<'_>, beat: Heartbeat<'_>) -> Result<()> {
        let beaten = timeout(WAIT_BUDGET, hubs::beat(&self.pool, &hub, beat));
        beaten.await.unwrap_or(Err(StoreError::Away))
    }

    async fn lead(&self) -> Result<bool> {
        self.leader.lead(&self.pool).await
    }

    async fn resign(&self) {
        let _ = timeout(WAIT_BUDGET, self.leader.resign()).await;
    }

    async fn call_for_parts(&self) -> Result<i64> {
        with_retries(|| hubs::call_for_parts(&self.pool)).await
    }

    async fn part_call(&self) -> Result<i64> {
        let read = timeout(WAIT_BUDGET, hubs::part_call(&self.pool));
        read.await.unwrap_or(Err(StoreError::Away))
    }

    async fn put_part(&self, hub: &str, seq: i64, body: &str) -> Result<()> {
        let written = timeout(WAIT_BUDGET, hubs::put_part(&self.pool, hub, seq, body));
        written.await.unwrap_or(Err(StoreError::Away))
    }

    async fn parts(&self, seq: i64) -> Result<Vec<PartRow>> {
        let read = timeout(WAIT_BUDGET, hubs::parts(&self.pool, seq));
        read.await.unwrap_or(Err(StoreError::Away))
    }

    async fn changes(&self, since: Revision, limit: u32) -> Result<LogPage> {
        with_retries(|| reads::changes(&self.pool, since, limit)).await
    }

    async fn audit(&self, asked: &Asked, before: LogPlace, limit: u32) -> Result<Vec<Change>> {
        with_retries(|| reads::audit(&self.pool, asked, before, limit)).await
    }

    async fn compact(&self, before: i64, keep: u64, slice: u32) -> Result<u64> {
        reads::compact(&self.pool, before, keep, slice).await
    }

    async fn forget_acts(&self, before: i64, slice: u32) -> Result<u64> {
        reads::forget_acts(&self.pool, before, slice).await
    }

    async fn facts_at(
        &self,
        cluster: &ClusterId,
        name: Option<&str>,
        at: i64,
    ) -> Result<Vec<FactVersion>> {
        with_retries(|| reads::facts_at(&self.pool, cluster, name, at)).await
    }

    async fn fact_versions(
        &self,
        cluster: &ClusterId,
        name: Option<&str>,
        span: Span,
        limit: u32,
    ) -> Result<Vec<FactVersion>> {
        with_retries(|| reads::fact_versions(&self.pool, cluster, name, span, limit)).await
    }

    async fn facts_changed(
        &self,
        name: &str,
        span: Span,
        behind: Option<&FactPlace>,
        limit: u32,
    ) -> Result<Vec<FactVersion>> {
        with_retries(|| reads::facts_changed(&self.pool, name, span, behind, limit)).await
    }

    async fn fact_versions_since(
        &self,
        revisions: (Revision, Revision),
        at: (i64, i64),
    ) -> Result<Vec<FactVersion>> {
        with_retries(|| reads::fact_versions_since(&self.pool, revisions, at)).await
    }

    async fn forget_facts(&self, before: i64, slice: u32) -> Result<u64> {
        reads::forget_facts(&self.pool, before, slice).await
    }

    /// The server checks its pages itself.
    async fn integrity(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    async fn export(&self, to: mpsc::Sender<DumpPart>) -> Result<()> {
        moves::export(&self.pool, to).await
    }

    async fn import(&self, from: mpsc::Receiver<DumpPart>) -> Result<()> {
        moves::import(&self.pool, from).await
    }

    async fn log_summary(&self) -> Result<LogSummary> {
        reads::log_summary(&self.pool).await
    }

    async fn remote_commit(&self) {
        if let Ok(Err(_)) = timeout(REVISION_POLL_INTERVAL, self.notified()).await {
            sleep(REVISION_POLL_INTERVAL).await;
        }
    }

    async fn revision(&self) -> Result<Revision> {
        let read = sqlx::query_scalar("SELECT revision FROM revision").fetch_one(&self.pool);
        let revision: i64 = timeout(REVISION_POLL_INTERVAL, read)
            .await
            .map_err(|_| StoreError::Away)??;
        Ok(Revision(uint(revision)?))
    }

    async fn close(&self) {
        self.listener.lock().await.take();
        self.pool.close().await;
    }
}
