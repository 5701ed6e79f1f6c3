//! Logs of runs, in pieces by their offset.

use std::ops::Range;

use bytes::Bytes;
use fairlead_api::RunId;
use fairlead_store::{Connections, Store};

use crate::database::{Result, int, parse, read, uint, unsynced, unsynced_statement};

/// Offset of the differences of a run, beside its log.
const DIFF_AT: i64 = -1;

/// A piece of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPiece {
    /// Offset of its first byte.
    pub at: u64,
    /// Its bytes.
    pub bytes: Bytes,
}

/// Logs of runs. Not synced: agents keep a log until the result of its run is accepted.
#[derive(Debug, Clone)]
pub struct LogStore(Connections);

impl LogStore {
    /// The logs in the database of a store.
    #[must_use]
    pub fn of(store: &Store) -> Self {
        LogStore(store.connections())
    }

    /// Adds a piece to the log of an existing run; false if there is one at this offset, or no such run.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn append(&self, run: &RunId, at: u64, bytes: &[u8]) -> Result<bool> {
        const ADD: &str = "INSERT INTO run_logs (run, at, bytes)
             SELECT id, CAST($2 AS BIGINT), $3 FROM runs WHERE id = $1
             ON CONFLICT (run, at) DO NOTHING";
        let at = int(at)?;
        unsynced_statement!(&self.0, |connection| {
            let add = sqlx::query(ADD).bind(run.as_str()).bind(at).bind(bytes);
            add.execute(&mut *connection).await?.rows_affected() > 0
        })
    }

    /// Offset after the last byte of a log; 0 without one.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn length(&self, run: &RunId) -> Result<u64> {
        const READ: &str = "SELECT CAST(COALESCE(max(at + length(bytes)), 0) AS BIGINT) FROM run_logs WHERE run = $1 AND at >= 0";
        let length: i64 = read!(&self.0, |pool| {
            let read = sqlx::query_scalar(READ).bind(run.as_str());
            read.fetch_one(pool).await?
        });
        uint(length)
    }

    /// Pieces of a log with bytes at or after `from`, in order, `limit` at most.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn read(&self, run: &RunId, from: u64, limit: u32) -> Result<Vec<LogPiece>> {
        const READ: &str = "SELECT at, bytes FROM run_logs
             WHERE run = $1 AND at >= 0 AND at + length(bytes) > $2 ORDER BY at LIMIT $3";
        let from = int(from)?;
        let found: Vec<(i64, Vec<u8>)> = read!(&self.0, |pool| {
            let read = sqlx::query_as(READ).bind(run.as_str()).bind(from);
            read.bind(i64::from(limit)).fetch_all(pool).await?
        });
        let found = found.into_iter();
        let found = found.map(|(at, bytes)| {
            Ok(LogPiece {
                at: uint(at)?,
                bytes: bytes.into(),
            })
        });
        found.collect()
    }

    /// Stores the differences of an existing run, over earlier ones. They go with the log.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn put_diff(&self, run: &RunId, diff: &[u8]) -> Result<()> {
        const PUT: &str = "INSERT INTO run_logs (run, at, bytes)
             SELECT id, CAST($2 AS BIGINT), $3 FROM runs WHERE id = $1
             ON CONFLICT (run, at) DO UPDATE SET bytes = EXCLUDED.bytes";
        unsynced!(&self.0, |tx| {
            let put = sqlx::query(PUT).bind(run.as_str()).bind(DIFF_AT).bind(diff);
            put.execute(&mut *tx).await?;
        })
    }

    /// Differences of a run; `None` without any.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn diff(&self, run: &RunId) -> Result<Option<Bytes>> {
        const READ: &str = "SELECT bytes FROM run_logs WHERE run = $1 AND at = $2";
        let found: Option<Vec<u8>> = read!(&self.0, |pool| {
            let read = sqlx::query_scalar(READ).bind(run.as_str()).bind(DIFF_AT);
            read.fetch_optional(pool).await?
        });
        Ok(found.map(Bytes::from))
    }

    /// Deletes the pieces of a log that lie within a range of offsets.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn cut(&self, run: &RunId, range: Range<u64>) -> Result<()> {
        const CUT: &str =
            "DELETE FROM run_logs WHERE run = $1 AND at >= $2 AND at + length(bytes) <= $3";
        let (from, to) = (int(range.start)?, int(range.end)?);
        unsynced!(&self.0, |tx| {
            let cut = sqlx::query(CUT).bind(run.as_str()).bind(from).bind(to);
            cut.execute(&mut *tx).await?;
        })
    }

    /// Size of each log in bytes, oldest run first.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn sizes(&self) -> Result<Vec<(RunId, u64)>> {
        const READ: &str = "SELECT run, CAST(sum(length(bytes)) AS BIGINT) FROM run_logs
             GROUP BY run ORDER BY run";
        let found: Vec<(String, i64)> = read!(&self.0, |pool| {
            sqlx::query_as(READ).fetch_all(pool).await?
        });
        let found = found.into_iter();
        found
            .map(|(run, bytes)| Ok((parse(&run)?, uint(bytes)?)))
            .collect()
    }

    /// Deletes the log of a run.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn forget(&self, run: &RunId) -> Result<()> {
        unsynced!(&self.0, |tx| {
            sqlx::query("DELETE FROM run_logs WHERE run = $1")
                .bind(run.as_str())
                .execute(&mut *tx)
                .await?;
        })
    }
}
