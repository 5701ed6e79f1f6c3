//! Catalogs in the store.

use std::sync::Arc;

use fairlead_api::{ClusterId, catalog::Catalog};

use super::{Inner, Result, Store, StoreError};

impl Store {
    /// The cluster's catalog; version 0 and empty where none was ever given.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn catalog(&self, cluster: &ClusterId) -> Result<Catalog> {
        let row: Option<(i64, String)> =
            sqlx::query_as("SELECT version, objects FROM catalogs WHERE cluster = ?")
                .bind(cluster.as_str())
                .fetch_optional(&self.inner.readers)
                .await?;
        let Some((version, objects)) = row else {
            return Ok(Catalog::default());
        };
        let objects = serde_json::from_str(&objects)
            .map_err(|_| StoreError::Damaged("a catalog".to_owned()))?;
        Ok(Catalog { version, objects })
    }

    /// The version of the cluster's catalog, without reading the catalog.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn catalog_version(&self, cluster: &ClusterId) -> Result<i64> {
        let version = sqlx::query_scalar("SELECT version FROM catalogs WHERE cluster = ?")
            .bind(cluster.as_str())
            .fetch_optional(&self.inner.readers)
            .await?;
        Ok(version.unwrap_or(0))
    }

    /// Puts these objects in the place of those of `catalog.version`; says the new version.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if another version is current, [`StoreError::Missing`] if there is no such cluster.
    pub async fn put_catalog(&self, cluster: ClusterId, catalog: Catalog) -> Result<i64> {
        let objects = serde_json::Value::from(catalog.objects).to_string();
        self.owned(async move |inner: Arc<Inner>| -> Result<i64> {
            let mut change = inner.begin().await?;
            let current: Option<i64> =
                sqlx::query_scalar("SELECT version FROM catalogs WHERE cluster = ?")
                    .bind(cluster.as_str())
                    .fetch_optional(&mut *change.tx)
                    .await?;
            if current.unwrap_or(0) != catalog.version {
                return Err(StoreError::Conflict);
            }
            sqlx::query(
                "INSERT INTO catalogs (cluster, version, objects) VALUES (?1, ?2, ?3)
                 ON CONFLICT (cluster) DO UPDATE SET version = ?2, objects = ?3",
            )
            .bind(cluster.as_str())
            .bind(catalog.version + 1)
            .bind(objects)
            .execute(&mut *change.tx)
            .await
            .map_err(|error| match error.into() {
                StoreError::InUse => StoreError::Missing,
                other => other,
            })?;
            change.commit().await?;
            Ok(catalog.version + 1)
        })
        .await
    }
}
