//! Turns of the writers of a file.
//!
//! SQLite has one write transaction at a time, and its own wait for it polls: of several connections that write without
//! pause one may starve until its deadline, and the file is idle while all of them sleep. So the writers of this process
//! take turns in the order of their requests. Only other programs meet SQLite's own wait.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};

use sqlx::{Sqlite, SqliteConnection, SqlitePool, pool::PoolConnection};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Turns of all writers of a file; clones share them.
#[derive(Debug, Clone)]
pub(super) struct WriteTurns {
    turns: Arc<Semaphore>,
    deadline: Duration,
}

/// Right to write, until it is dropped.
pub(super) type WriteTurn = OwnedSemaphorePermit;

impl WriteTurns {
    /// Turns for which a writer waits at most `deadline`.
    pub(super) fn new(deadline: Duration) -> Self {
        WriteTurns {
            turns: Arc::new(Semaphore::new(1)),
            deadline,
        }
    }

    /// Waits for the turn of the caller, who must not hold another one.
    ///
    /// # Errors
    /// [`sqlx::Error::PoolTimedOut`] after the deadline.
    pub(super) async fn take(&self) -> sqlx::Result<WriteTurn> {
        let turn = timeout(self.deadline, Arc::clone(&self.turns).acquire_owned()).await;
        turn.map_err(|_| sqlx::Error::PoolTimedOut)?
            .map_err(|_| sqlx::Error::PoolClosed)
    }
}

/// Connections for writes to a file; clones share them.
#[derive(Debug, Clone)]
pub struct SqliteWriter {
    pub(super) pool: SqlitePool,
    turns: WriteTurns,
}

impl SqliteWriter {
    pub(super) fn new(pool: SqlitePool, turns: WriteTurns) -> Self {
        SqliteWriter { pool, turns }
    }

    /// A connection in its turn. The caller must not hold another one.
    ///
    /// # Errors
    /// [`sqlx::Error::PoolTimedOut`] if the turn does not come within the store's deadline.
    pub async fn acquire(&self) -> sqlx::Result<SqliteWrite> {
        let turn = self.turns.take().await?;
        Ok(SqliteWrite {
            connection: self.pool.acquire().await?,
            _turn: turn,
        })
    }
}

/// A connection that may write; the turn ends with it.
#[derive(Debug)]
pub struct SqliteWrite {
    connection: PoolConnection<Sqlite>,
    _turn: WriteTurn,
}

impl SqliteWrite {
    /// Closes the connection instead of returning it to its pool.
    pub fn close_on_drop(&mut self) {
        self.connection.close_on_drop();
    }
}

impl Deref for SqliteWrite {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.connection
    }
}

impl DerefMut for SqliteWrite {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }
}

#[cfg(test)]
mod tests {
    use fairlead_api::TenantId;
    use sqlx::Connection as _;
    use time::OffsetDateTime;
    use tokio::sync::oneshot;

    use crate::{Actor, Clock, Connections, Draft, Place, Store, model::Tenant};

    use super::*;

    #[tokio::test]
    async fn writers_of_one_process_never_meet_a_locked_file() {
        let home = tempfile::tempdir().unwrap();
        let place = Place::File(home.path().join("store.db"));
        let clock = Clock::new(|| OffsetDateTime::UNIX_EPOCH);
        // Without patience a locked file is an error at once.
        let store = Store::open_with(&place, clock, Duration::ZERO).await;
        let store = store.unwrap();
        let Connections::Sqlite(file) = store.connections() else {
            panic!("no file");
        };
        let mut first = file.unsynced.acquire().await.unwrap();
        let (begun, begin) = oneshot::channel();
        let (changed, change) = oneshot::channel();
        let name: TenantId = "t-a".parse().unwrap();
        let put = move |draft: &mut Draft| {
            draft.put_tenant(Tenant::new(name.clone(), OffsetDateTime::UNIX_EPOCH))
        };
        let others = async {
            begin.await.unwrap();
            store.change(Actor::Hub, put).await.unwrap();
            file.durable.acquire().await.unwrap();
            // The receiver ends with its deadline.
            let _ = changed.send(());
        };
        let writes = async move {
            let writing = first.begin_with("BEGIN IMMEDIATE").await.unwrap();
            begun.send(()).unwrap();
            // Time for the others to fail, if they do not wait.
            let failed = timeout(Duration::from_millis(200), change).await;
            assert!(failed.is_err(), "a change went through a locked file");
            writing.commit().await.unwrap();
        };
        tokio::join!(others, writes);
        store.close().await;
    }
}
