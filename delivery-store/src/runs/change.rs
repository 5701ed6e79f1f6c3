//! Changes of the runs of one deployment, one after the other: also of several hubs on one database.

use fairlead_api::{BundleId, ClusterId, RunId};
use fairlead_store::{Connections, StoreError};

use super::{RunColumns, RunRow, RunStore, row};
use crate::database::{Result, durable, int, unsynced};

/// Number of ended runs that are kept of a deployment.
pub const RUNS_PER_DEPLOYMENT: u32 = 20;

/// The deployment of a row, in an expression that is a lock at the server only.
const LOCK: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('fairlead run ' || $1 || ' ' || $2, 0))";

/// Runs that have not ended, and the one with the id `$3`. 1000 is the most that one statement reads or deletes. Limits
/// are no parameters: SQLite would plan the statement anew for each value.
const READ: &str = "SELECT id, cluster, bundle, state, version, body FROM runs
     WHERE cluster = $1 AND bundle = $2 AND (state IN ('Queued', 'Leased', 'Running') OR id = $3)
     ORDER BY id LIMIT 1000";

const ADD: &str = "INSERT INTO runs (id, cluster, bundle, state, version, body)
     SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS TEXT), CAST($5 AS BIGINT), CAST($6 AS TEXT)
     WHERE EXISTS (SELECT 1 FROM documents WHERE kind = 'cluster' AND id = $2)
     ON CONFLICT (id) DO NOTHING
     RETURNING (SELECT count(*) FROM runs AS known WHERE known.cluster = $2 AND known.bundle = $3)";

const REPLACE: &str = "UPDATE runs SET state = $4, version = $5, body = $6 WHERE id = $1 AND cluster = $2 AND bundle = $3 AND version = $5 - 1";

const OLD_LOGS: &str = "DELETE FROM run_logs WHERE run IN (
     SELECT id FROM runs WHERE cluster = $1 AND bundle = $2 AND state NOT IN ('Queued', 'Leased', 'Running')
     ORDER BY id DESC LIMIT 1000 OFFSET 20)";

const OLD_RUNS: &str = "DELETE FROM runs WHERE id IN (
     SELECT id FROM runs WHERE cluster = $1 AND bundle = $2 AND state NOT IN ('Queued', 'Leased', 'Running')
     ORDER BY id DESC LIMIT 1000 OFFSET 20)";

/// Decides and writes in a transaction of this kind.
macro_rules! change_in {
    ($transaction:ident, $connections:expr, $deployment:expr, $also:expr, $decide:expr) => {{
        let (cluster, bundle) = $deployment;
        let also = $also.map_or("", RunId::as_str);
        let is_server = matches!($connections, Connections::Postgres(_));
        $transaction!(&$connections, |tx| {
            if is_server {
                let lock = sqlx::query(LOCK).bind(cluster.as_str());
                lock.bind(bundle.as_str()).execute(&mut *tx).await?;
            }
            let read = sqlx::query_as(READ).bind(cluster.as_str());
            let read = read.bind(bundle.as_str()).bind(also);
            let found: Vec<RunColumns> = read.fetch_all(&mut *tx).await?;
            let found = found.into_iter().map(row).collect::<Result<Vec<_>>>()?;
            let (changed, answer) = $decide(found);
            // One database counts the added run, the other does not.
            let mut count = 0;
            for run in &changed {
                macro_rules! bound {
                    ($statement:expr) => {
                        $statement
                            .bind(run.id.as_str())
                            .bind(cluster.as_str())
                            .bind(bundle.as_str())
                            .bind(run.state.as_str())
                            .bind(int(run.version)?)
                            .bind(&run.body)
                    };
                }
                if run.version == 1 {
                    let add = bound!(sqlx::query_scalar(ADD));
                    let added: Option<i64> = add.fetch_optional(&mut *tx).await?;
                    count = added.ok_or(StoreError::Missing)?;
                } else {
                    let replace = bound!(sqlx::query(REPLACE)).execute(&mut *tx).await?;
                    if replace.rows_affected() == 0 {
                        return Err(StoreError::Conflict);
                    }
                }
            }
            if count >= i64::from(RUNS_PER_DEPLOYMENT) {
                for forget in [OLD_LOGS, OLD_RUNS] {
                    let forget = sqlx::query(forget).bind(cluster.as_str());
                    forget.bind(bundle.as_str()).execute(&mut *tx).await?;
                }
            }
            answer
        })
    }};
}

impl RunStore {
    /// Decides on the runs of a deployment that have not ended, and on the run `also`, and writes the changed ones: with
    /// version 1 new ones, otherwise with the version after the read one. Durable on return. No other change of the same
    /// deployment happens in between.
    ///
    /// After a new run, ended ones beyond [`RUNS_PER_DEPLOYMENT`] are deleted with their logs.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if a new run's cluster is gone, [`StoreError::Conflict`] if a changed run is gone. Nothing is
    /// written then.
    pub async fn change<T>(
        &self,
        deployment: (&ClusterId, &BundleId),
        also: Option<&RunId>,
        decide: impl FnOnce(Vec<RunRow>) -> (Vec<RunRow>, T),
    ) -> Result<T> {
        change_in!(durable, self.0, deployment, also, decide)
    }

    /// Like [`RunStore::change`], and a power failure may undo it: for runs that agents make and keep themselves.
    ///
    /// # Errors
    /// [`StoreError`] as of [`RunStore::change`].
    pub async fn record<T>(
        &self,
        deployment: (&ClusterId, &BundleId),
        also: Option<&RunId>,
        decide: impl FnOnce(Vec<RunRow>) -> (Vec<RunRow>, T),
    ) -> Result<T> {
        change_in!(unsynced, self.0, deployment, also, decide)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_keep_the_documented_number_of_runs() {
        let kept = format!("LIMIT 1000 OFFSET {RUNS_PER_DEPLOYMENT})");
        for forget in [OLD_LOGS, OLD_RUNS] {
            assert!(forget.ends_with(&kept), "{forget}");
        }
    }
}
