//! Executions of deployments.

mod change;

use fairlead_api::{BundleId, ClusterId, RunId, delivery::RunState};
use fairlead_store::{Connections, Store};
use sqlx::QueryBuilder;

use crate::database::{Result, durable_statement, int, parse, read, uint};

pub use change::RUNS_PER_DEPLOYMENT;

/// Columns of a run in a query.
type RunColumns = (String, String, String, String, i64, String);

/// An execution of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// Id of the run; ids rise with time.
    pub id: RunId,
    /// The cluster.
    pub cluster: ClusterId,
    /// The bundle.
    pub bundle: BundleId,
    /// State.
    pub state: RunState,
    /// Version, 1 at first.
    pub version: u64,
    /// Details as JSON.
    pub body: String,
}

/// Selects runs; missing fields match all.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Runs in this cluster.
    pub cluster: Option<ClusterId>,
    /// Runs in one of these clusters; `None`: in any cluster.
    pub clusters: Option<Vec<ClusterId>>,
    /// Runs of this bundle.
    pub bundle: Option<BundleId>,
    /// Runs in one of these states; empty: in any state.
    pub states: Vec<RunState>,
    /// Runs older than this one.
    pub before: Option<RunId>,
}

/// Executions of deployments.
#[derive(Debug, Clone)]
pub struct RunStore(Connections);

impl RunStore {
    /// The runs in the database of a store.
    #[must_use]
    pub fn of(store: &Store) -> Self {
        RunStore(store.connections())
    }

    /// Adds a run in an existing cluster; false if its id is taken or its cluster is gone. Durable on return.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn add(&self, run: &RunRow) -> Result<bool> {
        const ADD: &str = "INSERT INTO runs (id, cluster, bundle, state, version, body)
             SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS TEXT), CAST($5 AS BIGINT), CAST($6 AS TEXT)
             WHERE EXISTS (SELECT 1 FROM documents WHERE kind = 'cluster' AND id = $2)
             ON CONFLICT (id) DO NOTHING";
        let version = int(run.version)?;
        durable_statement!(&self.0, |connection| {
            let add = sqlx::query(ADD)
                .bind(run.id.as_str())
                .bind(run.cluster.as_str())
                .bind(run.bundle.as_str())
                .bind(run.state.as_str())
                .bind(version)
                .bind(&run.body);
            add.execute(&mut *connection).await?.rows_affected() > 0
        })
    }

    /// Replaces state and details of a run if its version is that before `run`'s; false otherwise. Durable on return.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn replace(&self, run: &RunRow) -> Result<bool> {
        const REPLACE: &str = "UPDATE runs SET state = $2, version = $3, body = $4 WHERE id = $1 AND version = $3 - 1";
        let version = int(run.version)?;
        durable_statement!(&self.0, |connection| {
            let replace = sqlx::query(REPLACE)
                .bind(run.id.as_str())
                .bind(run.state.as_str())
                .bind(version)
                .bind(&run.body);
            replace.execute(&mut *connection).await?.rows_affected() > 0
        })
    }

    /// The run with this id.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn get(&self, id: &RunId) -> Result<Option<RunRow>> {
        const READ: &str =
            "SELECT id, cluster, bundle, state, version, body FROM runs WHERE id = $1";
        let found: Option<RunColumns> = read!(&self.0, |pool| {
            let read = sqlx::query_as(READ).bind(id.as_str());
            read.fetch_optional(pool).await?
        });
        found.map(row).transpose()
    }

    /// The run with this id, and the offset after the last byte of its log.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn get_with_log(&self, id: &RunId) -> Result<Option<(RunRow, u64)>> {
        const READ: &str = "SELECT id, cluster, bundle, state, version, body,
             (SELECT CAST(COALESCE(max(at + length(bytes)), 0) AS BIGINT) FROM run_logs WHERE run = $1 AND at >= 0)
             FROM runs WHERE id = $1";
        let found: Option<(String, String, String, String, i64, String, i64)> =
            read!(&self.0, |pool| {
                let read = sqlx::query_as(READ).bind(id.as_str());
                read.fetch_optional(pool).await?
            });
        let found = found.map(|(id, cluster, bundle, state, version, body, length)| {
            let run = row((id, cluster, bundle, state, version, body))?;
            Ok((run, uint(length)?))
        });
        found.transpose()
    }

    /// Runs by filter, newest first.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn list(&self, filter: &RunFilter, limit: u32) -> Result<Vec<RunRow>> {
        let found: Vec<RunColumns> = read!(&self.0, |pool| {
            let mut query = QueryBuilder::new(
                "SELECT id, cluster, bundle, state, version, body FROM runs WHERE 1 = 1",
            );
            if let Some(cluster) = &filter.cluster {
                query.push(" AND cluster = ").push_bind(cluster.as_str());
            }
            if let Some(clusters) = &filter.clusters {
                query.push(" AND cluster IN ('' ");
                for cluster in clusters {
                    query.push(", ").push_bind(cluster.as_str());
                }
                query.push(")");
            }
            if let Some(bundle) = &filter.bundle {
                query.push(" AND bundle = ").push_bind(bundle.as_str());
            }
            if let Some(before) = &filter.before {
                query.push(" AND id < ").push_bind(before.as_str());
            }
            if !filter.states.is_empty() {
                query.push(" AND state IN (");
                let mut states = query.separated(", ");
                for state in &filter.states {
                    states.push_bind(state.as_str());
                }
                query.push(")");
            }
            query.push(" ORDER BY id DESC LIMIT ");
            query.push_bind(i64::from(limit));
            query.build_query_as().fetch_all(pool).await?
        });
        found.into_iter().map(row).collect()
    }

    /// Deletes ended runs older than `before`, with their logs, `limit` at most; returns their number.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn forget(&self, before: &RunId, limit: u32) -> Result<u64> {
        const LOGS: &str = "DELETE FROM run_logs WHERE run IN (
             SELECT id FROM runs WHERE id < $1 AND state NOT IN ('Queued', 'Leased', 'Running') ORDER BY id LIMIT $2)";
        const RUNS: &str = "DELETE FROM runs WHERE id IN (
             SELECT id FROM runs WHERE id < $1 AND state NOT IN ('Queued', 'Leased', 'Running') ORDER BY id LIMIT $2)";
        crate::database::unsynced!(&self.0, |tx| {
            let mut gone = 0;
            for forget in [LOGS, RUNS] {
                let forget = sqlx::query(forget).bind(before.as_str());
                let forget = forget.bind(i64::from(limit));
                gone = forget.execute(&mut *tx).await?.rows_affected();
            }
            gone
        })
    }
}

fn row((id, cluster, bundle, state, version, body): RunColumns) -> Result<RunRow> {
    Ok(RunRow {
        id: parse(&id)?,
        cluster: parse(&cluster)?,
        bundle: parse(&bundle)?,
        state: parse(&state)?,
        version: uint(version)?,
        body,
    })
}
