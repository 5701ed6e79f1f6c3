//! Statements in the common dialect of both databases.

use fairlead_store::StoreError;

pub(crate) type Result<T> = std::result::Result<T, StoreError>;

/// Runs `$body` with the readers of the file, or with the pool of the server.
macro_rules! read {
    ($connections:expr, |$pool:ident| $body:expr) => {
        match $connections {
            fairlead_store::Connections::Sqlite(file) => {
                let $pool = &file.readers;
                $body
            }
            fairlead_store::Connections::Postgres($pool) => $body,
        }
    };
}
pub(crate) use read;

/// Begins a transaction, runs `$body` in it, and commits. `$which` is the pool of the file, and `$setting` the first statement at
/// the server.
macro_rules! transaction {
    ($connections:expr, $which:ident, $setting:expr, |$tx:ident| $body:expr) => {
        match $connections {
            fairlead_store::Connections::Sqlite(file) => {
                let mut connection = file.$which.acquire().await?;
                let done = async {
                    let mut $tx =
                        sqlx::Connection::begin_with(&mut *connection, "BEGIN IMMEDIATE").await?;
                    let done = $body;
                    $tx.commit().await?;
                    Ok(done)
                };
                let done: crate::database::Result<_> = done.await;
                if done.is_err() {
                    // After SQLite rolled back a transaction itself, as on a full disk, sqlx's
                    // connection state is wrong.
                    connection.close_on_drop();
                }
                done
            }
            fairlead_store::Connections::Postgres(pool) => {
                let mut $tx = pool.begin().await?;
                let setting: Option<&'static str> = $setting;
                if let Some(setting) = setting {
                    sqlx::query(setting).execute(&mut *$tx).await?;
                }
                let done = $body;
                $tx.commit().await?;
                Ok(done)
            }
        }
    };
}
pub(crate) use transaction;

/// A transaction that a power failure may undo.
macro_rules! unsynced {
    ($connections:expr, |$tx:ident| $body:expr) => {
        crate::database::transaction!(
            $connections,
            unsynced,
            Some("SET LOCAL synchronous_commit = off"),
            |$tx| $body
        )
    };
}
pub(crate) use unsynced;

/// One statement that a power failure may undo: `$body` with a connection of the file, or in a transaction of the server.
macro_rules! unsynced_statement {
    ($connections:expr, |$connection:ident| $body:expr) => {
        match $connections {
            fairlead_store::Connections::Sqlite(file) => {
                let mut $connection = file.unsynced.acquire().await?;
                Ok($body)
            }
            fairlead_store::Connections::Postgres(_) => {
                crate::database::unsynced!($connections, |$connection| $body)
            }
        }
    };
}
pub(crate) use unsynced_statement;

/// One statement that is durable once it is done.
macro_rules! durable_statement {
    ($connections:expr, |$connection:ident| $body:expr) => {
        match $connections {
            fairlead_store::Connections::Sqlite(file) => {
                let mut $connection = file.durable.acquire().await?;
                Ok($body)
            }
            fairlead_store::Connections::Postgres(pool) => {
                let mut $connection = pool.acquire().await?;
                Ok($body)
            }
        }
    };
}
pub(crate) use durable_statement;

/// A transaction that is durable once committed.
macro_rules! durable {
    ($connections:expr, |$tx:ident| $body:expr) => {
        crate::database::transaction!($connections, durable, None, |$tx| $body)
    };
}
pub(crate) use durable;

/// A column that only this program writes, so that other values are damage.
pub(crate) fn parse<T: std::str::FromStr>(text: &str) -> Result<T> {
    let damaged = |_| StoreError::Damaged(text.chars().take(80).collect());
    text.parse().map_err(damaged)
}

pub(crate) fn uint(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| StoreError::Damaged(number.to_string()))
}

pub(crate) fn int(number: u64) -> Result<i64> {
    i64::try_from(number).map_err(|_| StoreError::Damaged(number.to_string()))
}
