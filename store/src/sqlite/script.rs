//! Several statements as one text. A round trip to the connection's thread costs more than most
//! statements, so related statements are sent together.
//!
//! sqlx splits the text at semicolons and binds `?` parameters consecutively over all statements; a
//! numbered one (`?1`) would name the same argument in each statement. Execution stops at the first
//! failing statement.

use sqlx::{QueryBuilder, Sqlite, SqliteConnection, query_builder::Separated};

use crate::error::Result;

/// Maximum number of rows per statement.
pub(super) const MAX_ROWS_PER_STATEMENT: usize = 100;
/// SQLite copies the remaining text for each statement that it prepares, so texts are bounded, in
/// bytes.
const MAX_TEXT_BYTES: usize = 32 * 1024;
/// Texts with at most this many rows per statement are cached: they are few and frequent.
const MAX_CACHED_ROWS: usize = 8;

pub(super) type BoundValues<'a> = Separated<'a, Sqlite, &'static str>;

/// A transaction. If it fails, or is dropped without [`SqlScript::commit`], its connection must be
/// closed.
pub(super) struct SqlScript<'c> {
    connection: &'c mut SqliteConnection,
    text: QueryBuilder<Sqlite>,
    rows: usize,
}

impl<'c> SqlScript<'c> {
    /// Takes the write lock at once: upgrading from a read lock could fail.
    pub(super) fn begin(connection: &'c mut SqliteConnection) -> Self {
        SqlScript {
            connection,
            text: QueryBuilder::new("BEGIN IMMEDIATE;"),
            rows: 0,
        }
    }

    /// One statement: a prefix, a row of values for each of `rows`, and a suffix.
    pub(super) async fn add<JsonRow>(
        &mut self,
        prefix: &str,
        rows: &[JsonRow],
        suffix: &str,
        bind: impl Fn(&mut BoundValues<'_>, &JsonRow) -> Result<()>,
    ) -> Result<()> {
        for rows in rows.chunks(MAX_ROWS_PER_STATEMENT) {
            self.text.push(prefix);
            for (number, row) in rows.iter().enumerate() {
                self.text.push(if number == 0 { " (" } else { ", (" });
                bind(&mut self.text.separated(", "), row)?;
                self.text.push(")");
            }
            self.text.push(suffix).push(";");
            self.rows += rows.len();
            if self.text.sql().as_str().len() > MAX_TEXT_BYTES {
                self.send().await?;
            }
        }
        Ok(())
    }

    /// One statement with its parameters.
    pub(super) fn statement(&mut self, statement: impl FnOnce(&mut QueryBuilder<Sqlite>)) {
        statement(&mut self.text);
        self.text.push(";");
    }

    pub(super) async fn commit(mut self) -> Result<()> {
        self.text.push("COMMIT");
        self.send().await
    }

    async fn send(&mut self) -> Result<()> {
        let mut text = std::mem::take(&mut self.text);
        let query = text.build().persistent(self.rows <= MAX_CACHED_ROWS);
        query.execute(&mut *self.connection).await?;
        Ok(())
    }
}
