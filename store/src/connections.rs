//! Connections to the database of a store, for crates with tables of their own in it.

use sqlx::{PgPool, SqlitePool};

use crate::sqlite::SqliteWriter;

/// Connections to a database; clones share them.
#[derive(Debug, Clone)]
pub enum Connections {
    /// A file of one hub.
    Sqlite(SqliteConnections),
    /// A server of several hubs.
    Postgres(PgPool),
}

/// Connections to a file.
#[derive(Debug, Clone)]
pub struct SqliteConnections {
    /// Writes that are durable on return.
    pub durable: SqliteWriter,
    /// Writes that a power failure may undo. After an error its connection must be closed.
    pub unsynced: SqliteWriter,
    /// Reads.
    pub readers: SqlitePool,
}
