//! Rollouts: the durable step of each, and its frozen waves.

use fairlead_api::{BundleId, RolloutId, delivery::RolloutState};
use fairlead_store::{Connections, Store};
use sqlx::QueryBuilder;

use crate::database::{Result, durable, durable_statement, int, parse, read, uint};

/// Columns of a rollout in a query.
type RolloutColumns = (String, String, i64, String, i64, String);

/// Release of one generation of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutRow {
    /// Id of the rollout.
    pub id: RolloutId,
    /// The bundle.
    pub bundle: BundleId,
    /// Released generation.
    pub generation: u64,
    /// State.
    pub state: RolloutState,
    /// Version, 1 at first.
    pub version: u64,
    /// Durable step as JSON.
    pub body: String,
}

/// A rollout and its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutVersion {
    /// Id of the rollout.
    pub id: RolloutId,
    /// Version.
    pub version: u64,
}

/// Selects rollouts; missing fields match all.
#[derive(Debug, Clone, Default)]
pub struct RolloutFilter {
    /// Rollouts of this bundle.
    pub bundle: Option<BundleId>,
    /// Rollouts in one of these states; empty: in any state.
    pub states: Vec<RolloutState>,
    /// Rollouts with an id after this one.
    pub after: Option<RolloutId>,
}

/// Rollouts of bundles.
#[derive(Debug, Clone)]
pub struct RolloutStore(Connections);

impl RolloutStore {
    /// The rollouts in the database of a store.
    #[must_use]
    pub fn of(store: &Store) -> Self {
        RolloutStore(store.connections())
    }

    /// Adds a rollout with its frozen waves as JSON; false if its id is taken. Durable on return.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn add(&self, rollout: &RolloutRow, waves: &str) -> Result<bool> {
        const ADD: &str = "INSERT INTO rollouts (id, bundle, generation, state, version, body)
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO NOTHING";
        let (generation, version) = (int(rollout.generation)?, int(rollout.version)?);
        durable!(&self.0, |tx| {
            let add = sqlx::query(ADD)
                .bind(rollout.id.as_str())
                .bind(rollout.bundle.as_str())
                .bind(generation)
                .bind(rollout.state.as_str())
                .bind(version)
                .bind(&rollout.body);
            let added = add.execute(&mut *tx).await?.rows_affected() > 0;
            if added {
                sqlx::query("INSERT INTO rollout_waves (rollout, body) VALUES ($1, $2)")
                    .bind(rollout.id.as_str())
                    .bind(waves)
                    .execute(&mut *tx)
                    .await?;
            }
            added
        })
    }

    /// Replaces state and step of a rollout if its version is that before `rollout`'s; false otherwise. Durable on return.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn replace(&self, rollout: &RolloutRow) -> Result<bool> {
        const REPLACE: &str = "UPDATE rollouts SET state = $2, version = $3, body = $4 WHERE id = $1 AND version = $3 - 1";
        let version = int(rollout.version)?;
        durable_statement!(&self.0, |connection| {
            let replace = sqlx::query(REPLACE)
                .bind(rollout.id.as_str())
                .bind(rollout.state.as_str())
                .bind(version)
                .bind(&rollout.body);
            replace.execute(&mut *connection).await?.rows_affected() > 0
        })
    }

    /// The rollout with this id.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn get(&self, id: &RolloutId) -> Result<Option<RolloutRow>> {
        const READ: &str =
            "SELECT id, bundle, generation, state, version, body FROM rollouts WHERE id = $1";
        let found: Option<RolloutColumns> = read!(&self.0, |pool| {
            let read = sqlx::query_as(READ).bind(id.as_str());
            read.fetch_optional(pool).await?
        });
        found.map(row).transpose()
    }

    /// Frozen waves of a rollout as JSON.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn waves(&self, id: &RolloutId) -> Result<Option<String>> {
        const READ: &str = "SELECT body FROM rollout_waves WHERE rollout = $1";
        let found: Option<String> = read!(&self.0, |pool| {
            let read = sqlx::query_scalar(READ).bind(id.as_str());
            read.fetch_optional(pool).await?
        });
        Ok(found)
    }

    /// Versions of the newest rollout of each bundle, in the order of their ids.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn newest(&self) -> Result<Vec<RolloutVersion>> {
        const READ: &str = "SELECT id, version FROM rollouts WHERE generation =
             (SELECT max(generation) FROM rollouts AS others WHERE others.bundle = rollouts.bundle)
             ORDER BY id";
        let found: Vec<(String, i64)> = read!(&self.0, |pool| {
            sqlx::query_as(READ).fetch_all(pool).await?
        });
        let found = found.into_iter();
        let found = found.map(|(id, version)| {
            Ok(RolloutVersion {
                id: parse(&id)?,
                version: uint(version)?,
            })
        });
        found.collect()
    }

    /// Rollouts by filter, in the order of their ids.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn list(&self, filter: &RolloutFilter, limit: u32) -> Result<Vec<RolloutRow>> {
        let found: Vec<RolloutColumns> = read!(&self.0, |pool| {
            let mut query = QueryBuilder::new(
                "SELECT id, bundle, generation, state, version, body FROM rollouts WHERE 1 = 1",
            );
            if let Some(bundle) = &filter.bundle {
                query.push(" AND bundle = ").push_bind(bundle.as_str());
            }
            if let Some(after) = &filter.after {
                query.push(" AND id > ").push_bind(after.as_str());
            }
            if !filter.states.is_empty() {
                query.push(" AND state IN (");
                let mut states = query.separated(", ");
                for state in &filter.states {
                    states.push_bind(state.as_str());
                }
                query.push(")");
            }
            query.push(" ORDER BY id LIMIT ");
            query.push_bind(i64::from(limit));
            query.build_query_as().fetch_all(pool).await?
        });
        found.into_iter().map(row).collect()
    }

    /// Deletes rollouts of bundles without a document; returns their number.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn forget_deleted(&self) -> Result<u64> {
        const WAVES: &str = "DELETE FROM rollout_waves WHERE rollout IN (SELECT id FROM rollouts
             WHERE bundle NOT IN (SELECT id FROM documents WHERE kind = 'bundle'))";
        const ROLLOUTS: &str = "DELETE FROM rollouts WHERE bundle NOT IN (SELECT id FROM documents WHERE kind = 'bundle')";
        durable!(&self.0, |tx| {
            let mut gone = 0;
            for forget in [WAVES, ROLLOUTS] {
                gone = sqlx::query(forget).execute(&mut *tx).await?.rows_affected();
            }
            gone
        })
    }

    /// Deletes rollouts of a bundle to generations below `before`; returns their number.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn forget(&self, bundle: &BundleId, before: u64) -> Result<u64> {
        const WAVES: &str = "DELETE FROM rollout_waves WHERE rollout IN
             (SELECT id FROM rollouts WHERE bundle = $1 AND generation < $2)";
        const ROLLOUTS: &str = "DELETE FROM rollouts WHERE bundle = $1 AND generation < $2";
        let before = int(before)?;
        durable!(&self.0, |tx| {
            let mut gone = 0;
            for forget in [WAVES, ROLLOUTS] {
                let forget = sqlx::query(forget).bind(bundle.as_str()).bind(before);
                gone = forget.execute(&mut *tx).await?.rows_affected();
            }
            gone
        })
    }
}

fn row((id, bundle, generation, state, version, body): RolloutColumns) -> Result<RolloutRow> {
    Ok(RolloutRow {
        id: parse(&id)?,
        bundle: parse(&bundle)?,
        generation: uint(generation)?,
        state: parse(&state)?,
        version: uint(version)?,
        body,
    })
}
