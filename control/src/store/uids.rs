//! Which Kubernetes cluster a registered one is, and who was seen with its identity in another one.

use std::sync::Arc;

use fairlead_api::{ClusterId, ClusterUid, resources::CloneSeen};

use super::{Inner, Result, Store, StoreError, millis};

impl Store {
    /// Binds a cluster to this UID, unless it is bound, or another key than `key` (its SHA-256) has enrolled last. What the
    /// cluster is bound to then.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if the cluster is gone.
    pub async fn bind_uid(
        &self,
        cluster: ClusterId,
        key: [u8; 32],
        uid: ClusterUid,
    ) -> Result<Option<ClusterUid>> {
        self.owned(
            async move |inner: Arc<Inner>| -> Result<Option<ClusterUid>> {
                let mut change = inner.begin().await?;
                // Whoever was faster has changed the memory before this turn began.
                let home = inner.index.home(&cluster).ok_or(StoreError::Missing)?;
                if home.uid.is_some() || home.key.is_some_and(|last| last != key) {
                    return Ok(home.uid);
                }
                sqlx::query("UPDATE clusters SET uid = ?, version = version + 1 WHERE id = ?")
                    .bind(uid.as_str())
                    .bind(cluster.as_str())
                    .execute(&mut *change.tx)
                    .await?;
                let _turn = change.commit().await?;
                inner
                    .index
                    .amend(&cluster, |home| home.uid = Some(uid.clone()));
                Ok(Some(uid))
            },
        )
        .await
    }

    /// Keeps the last clone that was seen of a cluster; of one that is gone, nothing.
    ///
    /// Not synced to the disk at once: it is seen again.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn set_clone(&self, cluster: &ClusterId, clone: &CloneSeen) -> Result<()> {
        sqlx::query(
            "UPDATE clusters SET clone_uid = ?, clone_from = ?, clone_seen = ? WHERE id = ?",
        )
        .bind(clone.uid.as_str())
        .bind(clone.from.to_string())
        .bind(millis(clone.last_seen))
        .bind(cluster.as_str())
        .execute(&self.inner.reporter)
        .await?;
        Ok(())
    }
}
