//! All rows of a database in a fixed order, as JSON: equal for both databases. An import replaces
//! all rows in a single transaction.

use serde_json::Value;

/// One row, values in column order.
pub(super) type JsonRow = Vec<Value>;

/// Rows in transit.
#[derive(Debug)]
pub(super) enum DumpPart {
    /// Some rows of a table, by its index in [`TABLES`].
    Rows(usize, Vec<JsonRow>),
    /// End marker; without it the import is rolled back.
    End,
}

/// Number of rows per slice.
pub(super) const ROWS_PER_SLICE: usize = 500;
/// Size at which a slice ends, in bytes of JSON.
pub(super) const SLICE_BYTES: usize = 4 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnType {
    Text,
    Int,
    Flag,
    /// Hexadecimal in lower case.
    Bytes,
}

/// Functions of a database for rows in JSON.
pub(super) struct JsonDialect {
    /// Makes an array.
    pub(super) array: &'static str,
    /// Rows of a JSON parameter, each in `source.item`.
    pub(super) source: &'static str,
    /// Bytes to text, around `{}`.
    pub(super) to_hex: &'static str,
    /// Text to bytes, around `{}`.
    pub(super) from_hex: &'static str,
}

pub(super) struct TableSpec {
    pub(super) name: &'static str,
    pub(super) columns: &'static [(&'static str, ColumnType)],
    pub(super) key: &'static str,
}

use ColumnType::{Bytes, Flag, Int, Text};

/// Columns of a line of the change log, also in its archive of people's lines.
const LOG_COLUMNS: &[(&str, ColumnType)] = &[
    ("revision", Int),
    ("part", Int),
    ("at", Int),
    ("actor", Text),
    ("kind", Text),
    ("id", Text),
    ("tenant", Text),
    ("operation", Text),
    ("before", Text),
    ("after", Text),
    ("audience", Text),
    ("actor_token", Text),
];

pub(super) const TABLES: [TableSpec; 15] = [
    TableSpec {
        name: "revision",
        columns: &[("one", Int), ("revision", Int), ("compacted", Int)],
        key: "one",
    },
    TableSpec {
        name: "documents",
        columns: &[
            ("kind", Text),
            ("id", Text),
            ("version", Int),
            ("revision", Int),
            ("body", Text),
        ],
        key: "kind, id",
    },
    TableSpec {
        name: "catalogs",
        columns: &[
            ("cluster", Text),
            ("version", Int),
            ("revision", Int),
            ("objects", Text),
        ],
        key: "cluster",
    },
    TableSpec {
        name: "observed",
        columns: &[("cluster", Text), ("hub", Text), ("body", Text)],
        key: "cluster, hub",
    },
    TableSpec {
        name: "changes",
        columns: LOG_COLUMNS,
        key: "revision, part",
    },
    TableSpec {
        name: "fact_history",
        columns: &[
            ("cluster", Text),
            ("name", Text),
            ("dynamic", Flag),
            ("at", Int),
            ("revision", Int),
            ("source", Text),
            ("observed", Int),
            ("value", Text),
        ],
        key: "cluster, name, dynamic, at, revision",
    },
    TableSpec {
        name: "acts",
        columns: LOG_COLUMNS,
        key: "revision, part",
    },
    TableSpec {
        name: "token_uses",
        columns: &[("token", Text), ("at", Int)],
        key: "token",
    },
    TableSpec {
        name: "contents",
        columns: &[("id", Text), ("bytes", Int), ("at", Int)],
        key: "id",
    },
    TableSpec {
        name: "content_parts",
        columns: &[("id", Text), ("part", Int), ("bytes", Bytes)],
        key: "id, part",
    },
    TableSpec {
        name: "deployments",
        columns: &[("cluster", Text), ("bundle", Text), ("body", Text)],
        key: "cluster, bundle",
    },
    TableSpec {
        name: "runs",
        columns: &[
            ("id", Text),
            ("cluster", Text),
            ("bundle", Text),
            ("state", Text),
            ("version", Int),
            ("body", Text),
        ],
        key: "id",
    },
    TableSpec {
        name: "run_logs",
        columns: &[("run", Text), ("at", Int), ("bytes", Bytes)],
        key: "run, at",
    },
    TableSpec {
        name: "rollouts",
        columns: &[
            ("id", Text),
            ("bundle", Text),
            ("generation", Int),
            ("state", Text),
            ("version", Int),
            ("body", Text),
        ],
        key: "id",
    },
    TableSpec {
        name: "rollout_waves",
        columns: &[("rollout", Text), ("body", Text)],
        key: "rollout",
    },
];

/// Indices of the one table with possibly many millions of rows, as created by the migrations. An
/// import creates them last: row-by-row maintenance would cost more than the rows.
pub(super) const INDICES: [(&str, &str); 2] = [
    ("fact_history_by_name", "fact_history (name, at)"),
    ("fact_history_by_time", "fact_history (at)"),
];

impl TableSpec {
    /// A query for all rows, each as a JSON array.
    pub(super) fn select(&self, dialect: &JsonDialect) -> String {
        let column = |(name, kind): &(&str, ColumnType)| match kind {
            Flag => format!("CAST({name} AS INTEGER)"),
            Bytes => dialect.to_hex.replace("{}", name),
            Int | Text => (*name).to_owned(),
        };
        let columns: Vec<String> = self.columns.iter().map(column).collect();
        let (columns, name, key) = (columns.join(", "), self.name, self.key);
        let array = dialect.array;
        format!("SELECT CAST({array}({columns}) AS TEXT) FROM {name} ORDER BY {key}")
    }

    /// A statement that inserts rows, each a JSON array.
    pub(super) fn insert(&self, dialect: &JsonDialect) -> String {
        let value = |(at, (_, kind)): (usize, &(&str, ColumnType))| match kind {
            Text => format!("source.item ->> {at}"),
            Bytes => {
                let text = format!("source.item ->> {at}");
                dialect.from_hex.replace("{}", &text)
            }
            Int => format!("CAST(source.item ->> {at} AS BIGINT)"),
            Flag => format!("CAST(CAST(source.item ->> {at} AS INTEGER) AS BOOLEAN)"),
        };
        let values: Vec<String> = self.columns.iter().enumerate().map(value).collect();
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        let (values, names, name) = (values.join(", "), names.join(", "), self.name);
        let source = dialect.source;
        format!("INSERT INTO {name} ({names}) SELECT {values} FROM {source}")
    }

    pub(super) fn delete(&self) -> String {
        format!("DELETE FROM {}", self.name)
    }
}

/// Copying half of a [`Backend`](crate::backend::Backend) for one database.
macro_rules! moves {
    ($database:ty, snapshot: $snapshot:literal, write: $write:literal, settings: $settings:expr, dialect: $dialect:expr) => {
        use futures_util::TryStreamExt;
        use sqlx::{AssertSqlSafe, Pool};
        use tokio::sync::mpsc;

        use crate::{
            error::{Result, StoreError},
            tables::{
                DumpPart, INDICES, JsonDialect, JsonRow, ROWS_PER_SLICE, SLICE_BYTES, TABLES,
            },
        };

        /// All rows of one snapshot.
        pub(super) async fn export(
            pool: &Pool<$database>,
            to: mpsc::Sender<DumpPart>,
        ) -> Result<()> {
            let mut tx = pool.begin_with($snapshot).await?;
            let settings: &[&'static str] = &$settings;
            for setting in settings {
                sqlx::query(*setting).execute(&mut *tx).await?;
            }
            for (at, table) in TABLES.iter().enumerate() {
                let query = AssertSqlSafe(table.select(&$dialect));
                let mut found = sqlx::query_scalar::<$database, String>(query).fetch(&mut *tx);
                let (mut rows, mut bytes) = (Vec::new(), 0);
                while let Some(text) = found.try_next().await? {
                    bytes += text.len();
                    let row: JsonRow = serde_json::from_str(&text)
                        .map_err(|_| StoreError::Damaged(table.name.to_owned()))?;
                    rows.push(row);
                    if rows.len() == ROWS_PER_SLICE || bytes >= SLICE_BYTES {
                        bytes = 0;
                        let rows = std::mem::take(&mut rows);
                        let sent = to.send(DumpPart::Rows(at, rows)).await;
                        sent.map_err(|_| StoreError::CutOff)?;
                    }
                }
                let sent = to.send(DumpPart::Rows(at, rows)).await;
                sent.map_err(|_| StoreError::CutOff)?;
            }
            to.send(DumpPart::End).await.map_err(|_| StoreError::CutOff)
        }

        /// Replaces all rows, or nothing.
        pub(super) async fn import(
            pool: &Pool<$database>,
            mut from: mpsc::Receiver<DumpPart>,
        ) -> Result<()> {
            let mut tx = pool.begin_with($write).await?;
            let settings: &[&'static str] = &$settings;
            for setting in settings {
                sqlx::query(*setting).execute(&mut *tx).await?;
            }
            for (index, _) in INDICES {
                let query = AssertSqlSafe(format!("DROP INDEX {index}"));
                sqlx::query(query).execute(&mut *tx).await?;
            }
            for table in &TABLES {
                let query = AssertSqlSafe(table.delete());
                sqlx::query(query).execute(&mut *tx).await?;
            }
            // A backup contains the keys as files; the next hub to start stores them here.
            sqlx::query("DELETE FROM keys").execute(&mut *tx).await?;
            loop {
                let (at, rows) = match from.recv().await {
                    Some(DumpPart::Rows(at, rows)) => (at, rows),
                    Some(DumpPart::End) => break,
                    None => return Err(StoreError::CutOff),
                };
                let table = TABLES.get(at).ok_or(StoreError::CutOff)?;
                let rows = serde_json::to_string(&rows).map_err(|_| StoreError::CutOff)?;
                sqlx::query(AssertSqlSafe(table.insert(&$dialect)))
                    .bind(rows)
                    .execute(&mut *tx)
                    .await?;
            }
            for (index, of) in INDICES {
                let query = AssertSqlSafe(format!("CREATE INDEX {index} ON {of}"));
                sqlx::query(query).execute(&mut *tx).await?;
            }
            Ok(tx.commit().await?)
        }
    };
}

pub(super) use moves;
