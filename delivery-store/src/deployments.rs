//! Last reported state of each bundle in each cluster.

use fairlead_api::{BundleId, ClusterId};
use fairlead_store::{Connections, Store};
use futures_util::TryStreamExt;
use serde_json::json;

use crate::database::{Result, parse, read, unsynced};

/// Statement that writes the rows of a JSON parameter.
macro_rules! write_from {
    ($source:literal) => {
        concat!(
            "INSERT INTO deployments (cluster, bundle, seq, body)
             SELECT source.item ->> 0, source.item ->> 1, $1, source.item ->> 2 FROM ",
            $source,
            " WHERE EXISTS (SELECT 1 FROM documents WHERE kind = 'cluster' AND id = source.item ->> 0)
             ON CONFLICT (cluster, bundle) DO UPDATE SET seq = EXCLUDED.seq, body = EXCLUDED.body"
        )
    };
}

/// State of a bundle in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentRow {
    /// The cluster.
    pub cluster: ClusterId,
    /// The bundle.
    pub bundle: BundleId,
    /// State as JSON; empty once it is removed.
    pub body: String,
}

/// States of bundles in clusters. Not synced: agents report again.
#[derive(Debug, Clone)]
pub struct DeploymentStore(Connections);

impl DeploymentStore {
    /// The deployments in the database of a store.
    #[must_use]
    pub fn of(store: &Store) -> Self {
        DeploymentStore(store.connections())
    }

    /// Writes states of bundles in existing clusters, together.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn write(&self, rows: &[DeploymentRow]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let rows = rows.iter();
        let rows: Vec<_> = rows
            .map(|it| json!([it.cluster, it.bundle, it.body]))
            .collect();
        let rows = json!(rows).to_string();
        let write = match &self.0 {
            Connections::Sqlite(_) => {
                write_from!("(SELECT value AS item FROM json_each($2)) AS source")
            }
            Connections::Postgres(_) => {
                write_from!("json_array_elements(CAST($2 AS JSON)) AS source (item)")
            }
        };
        unsynced!(&self.0, |tx| {
            // The row lock is held until commit, so numbers become visible in order.
            let seq: i64 = sqlx::query_scalar(
                "UPDATE deployments_until SET seq = seq + 1 WHERE one = 1 RETURNING seq",
            )
            .fetch_one(&mut *tx)
            .await?;
            let write = sqlx::query(write).bind(seq).bind(&rows);
            write.execute(&mut *tx).await?;
        })
    }

    /// Reads states written after number `since`, in the order of their numbers, and returns the last number. All states come
    /// after -1.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn read(&self, since: i64, mut each: impl FnMut(DeploymentRow)) -> Result<i64> {
        const READ: &str =
            "SELECT cluster, bundle, seq, body FROM deployments WHERE seq > $1 ORDER BY seq";
        let mut last = since;
        read!(&self.0, |pool| {
            let read = sqlx::query_as(READ).bind(since);
            let mut rows = read.fetch(pool);
            while let Some((cluster, bundle, seq, body)) = rows.try_next().await? {
                let (cluster, bundle): (String, String) = (cluster, bundle);
                last = seq;
                each(DeploymentRow {
                    cluster: parse(&cluster)?,
                    bundle: parse(&bundle)?,
                    body,
                });
            }
        });
        Ok(last)
    }

    /// Clusters with a state of this bundle.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn clusters_of(&self, bundle: &BundleId) -> Result<Vec<ClusterId>> {
        const READ: &str =
            "SELECT cluster FROM deployments WHERE bundle = $1 AND body <> '' ORDER BY cluster";
        let found: Vec<String> = read!(&self.0, |pool| {
            let read = sqlx::query_scalar(READ).bind(bundle.as_str());
            read.fetch_all(pool).await?
        });
        found.iter().map(|it| parse(it)).collect()
    }

    /// Deletes removed states up to number `until`, which all hubs have read.
    ///
    /// # Errors
    /// [`StoreError`](fairlead_store::StoreError)
    pub async fn forget_removed(&self, until: i64) -> Result<u64> {
        const FORGET: &str = "DELETE FROM deployments WHERE body = '' AND seq <= $1";
        unsynced!(&self.0, |tx| {
            let forget = sqlx::query(FORGET).bind(until);
            forget.execute(&mut *tx).await?.rows_affected()
        })
    }
}
