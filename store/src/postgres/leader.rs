//! Session of this hub that holds the lock of the leading hub, or tries to acquire it. It is no connection of the pool: the
//! server ends it when it is silent, so that a frozen or unreachable hub leads no longer than its lease.

use sqlx::{Connection, PgConnection, PgPool};
use tokio::sync::Mutex;

use crate::{error::Result, leadership::SERVER_TIMEOUT};

/// Key of the advisory lock: "fairlead" in ASCII.
const LOCK_KEY: i64 = 0x6661_6972_6c65_6164;

/// The session with the lock.
#[derive(Default)]
pub(super) struct Leader(Mutex<Option<LockSession>>);

struct LockSession {
    connection: PgConnection,
    has_lock: bool,
}

impl Leader {
    /// Acquires or confirms the lock; false if another hub has it. After an error, or if it is dropped early, the session is
    /// closed with its lock.
    pub(super) async fn lead(&self, pool: &PgPool) -> Result<bool> {
        let mut slot = self.0.lock().await;
        // Outside of its slot: a dropped call drops the session.
        let mut session = match slot.take() {
            Some(session) => session,
            None => LockSession {
                connection: connect(pool).await?,
                has_lock: false,
            },
        };
        let connection = &mut session.connection;
        if session.has_lock {
            sqlx::query("SELECT 1").execute(connection).await?;
        } else {
            let acquire = sqlx::query_scalar("SELECT pg_try_advisory_lock($1)");
            session.has_lock = acquire.bind(LOCK_KEY).fetch_one(connection).await?;
        }
        Ok(slot.insert(session).has_lock)
    }

    /// Closes the session with its lock.
    pub(super) async fn resign(&self) {
        if let Some(session) = self.0.lock().await.take() {
            // The server notices the closed socket as well.
            let _ = session.connection.close().await;
        }
    }
}

async fn connect(pool: &PgPool) -> Result<PgConnection> {
    let options = pool.connect_options().as_ref().clone();
    let options = options.options([("idle_session_timeout", SERVER_TIMEOUT)]);
    Ok(PgConnection::connect_with(&options).await?)
}
