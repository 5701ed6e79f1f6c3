//! Rows and bytes of delivery in the hub's database, counted from outside.

use std::path::{Path, PathBuf};

use sqlx::{
    ConnectOptions as _, Connection as _,
    postgres::{PgConnectOptions, PgConnection},
    sqlite::SqliteConnectOptions,
};

/// A number that every write of delivery moves: revisions, numbers of batches and versions of rows.
const MOVES: &str = "SELECT CAST(
    (SELECT revision FROM revision)
    + (SELECT seq FROM deployments_until)
    + (SELECT count(*) + coalesce(sum(version), 0) FROM runs)
    + (SELECT count(*) + coalesce(sum(version), 0) FROM rollouts)
    + (SELECT count(*) FROM contents)
    AS BIGINT)";

/// Writes of rows of delivery since the statistics began.
const POSTGRES_ROWS: &str = "SELECT CAST(coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) AS BIGINT)
    FROM pg_stat_user_tables WHERE relname IN ('deployments', 'deployments_until', 'runs', 'run_logs',
    'rollouts', 'rollout_waves', 'contents', 'content_parts', 'documents', 'changes')";

/// Bytes of the table of deployments and its indexes.
const SQLITE_BYTES: &str = "SELECT coalesce(sum(pgsize), 0) FROM dbstat
    WHERE name IN (SELECT name FROM sqlite_schema WHERE tbl_name = 'deployments')";
const POSTGRES_BYTES: &str = "SELECT pg_total_relation_size('deployments')";

pub(super) enum Database {
    Sqlite(PathBuf),
    Postgres(Box<PgConnectOptions>),
}

impl Database {
    pub(super) fn sqlite(path: &Path) -> Self {
        Database::Sqlite(path.to_owned())
    }

    pub(super) fn postgres(url: &str) -> anyhow::Result<Self> {
        Ok(Database::Postgres(Box::new(url.parse()?)))
    }

    /// One query on a connection of its own, so that it keeps no lock of the hub's database.
    async fn number(&self, sqlite: &'static str, postgres: &'static str) -> anyhow::Result<i64> {
        Ok(match self {
            Database::Sqlite(path) => {
                let options = SqliteConnectOptions::new().filename(path).read_only(true);
                let mut connection = options.connect().await?;
                let number = sqlx::query_scalar(sqlite).fetch_one(&mut connection).await;
                connection.close().await?;
                number?
            }
            Database::Postgres(options) => {
                let mut connection = PgConnection::connect_with(options).await?;
                let number = sqlx::query_scalar(postgres)
                    .fetch_one(&mut connection)
                    .await;
                connection.close().await?;
                number?
            }
        })
    }

    /// Counter of writes of delivery. SQLite counts a batch of deployments once, PostgreSQL each row.
    pub(super) async fn writes(&self) -> anyhow::Result<i64> {
        self.number(MOVES, POSTGRES_ROWS).await
    }

    /// Bytes of all stored deployments.
    pub(super) async fn deployment_bytes(&self) -> anyhow::Result<i64> {
        self.number(SQLITE_BYTES, POSTGRES_BYTES).await
    }
}
