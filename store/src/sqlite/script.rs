//! Several statements as one text. To hand something to a connection's thread and to be woken by it costs more than what most
//! statements do, so what belongs together goes there together.
//!
//! sqlx cuts the text at its semicolons and binds `?` after `?`, on through all of the statements; a numbered one (`?1`)
//! would name the same argument in each of them. The first statement that fails is the last one that runs.

use sqlx::{QueryBuilder, Sqlite, SqliteConnection, query_builder::Separated};

use crate::error::Result;

/// Rows of one statement.
pub(super) const ROWS: usize = 100;
/// SQLite copies what is left of a text for each statement of it that it prepares.
const TEXT: usize = 32 * 1024;
/// The statements of a text with so few rows stay prepared: there are few such texts, and they come all the time.
const USUAL: usize = 8;

pub(super) type Values<'a> = Separated<'a, Sqlite, &'static str>;

/// A transaction; if it fails, or ends without [`Script::commit`], its connection has to end as well.
pub(super) struct Script<'c> {
    connection: &'c mut SqliteConnection,
    text: QueryBuilder<Sqlite>,
    rows: usize,
}

impl<'c> Script<'c> {
    /// Takes the file's lock at once: a transaction that first reads and then writes could not get it any more.
    pub(super) fn begin(connection: &'c mut SqliteConnection) -> Self {
        Script {
            connection,
            text: QueryBuilder::new("BEGIN IMMEDIATE;"),
            rows: 0,
        }
    }

    /// One statement: what stands before and behind a row of values for each of `rows`.
    pub(super) async fn add<Row>(
        &mut self,
        before: &str,
        rows: &[Row],
        behind: &str,
        bind: impl Fn(&mut Values<'_>, &Row) -> Result<()>,
    ) -> Result<()> {
        for rows in rows.chunks(ROWS) {
            self.text.push(before);
            for (number, row) in rows.iter().enumerate() {
                self.text.push(if number == 0 { " (" } else { ", (" });
                bind(&mut self.text.separated(", "), row)?;
                self.text.push(")");
            }
            self.text.push(behind).push(";");
            self.rows += rows.len();
            if self.text.sql().as_str().len() > TEXT {
                self.send().await?;
            }
        }
        Ok(())
    }

    /// One statement with what it takes.
    pub(super) fn say(&mut self, statement: impl FnOnce(&mut QueryBuilder<Sqlite>)) {
        statement(&mut self.text);
        self.text.push(";");
    }

    pub(super) async fn commit(mut self) -> Result<()> {
        self.text.push("COMMIT");
        self.send().await
    }

    async fn send(&mut self) -> Result<()> {
        let mut text = std::mem::take(&mut self.text);
        let query = text.build().persistent(self.rows <= USUAL);
        query.execute(&mut *self.connection).await?;
        Ok(())
    }
}
