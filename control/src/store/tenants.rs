//! Tenants in the store.

use fairlead_api::{TenantId, resources::Tenant};

use super::{Result, Store, StoreError, millis, parse, time};

type Row = (String, String, i64, i64);

impl Store {
    /// By id; with `scope`, that tenant alone.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn tenants(&self, scope: Option<&TenantId>) -> Result<Vec<Tenant>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT id, display_name, created, version FROM tenants
             WHERE ?1 IS NULL OR id = ?1 ORDER BY id",
        )
        .bind(scope.map(TenantId::as_str))
        .fetch_all(&self.inner.readers)
        .await?;
        rows.into_iter().map(tenant).collect()
    }

    /// # Errors
    /// [`StoreError`]
    pub async fn tenant(&self, id: &TenantId, scope: Option<&TenantId>) -> Result<Option<Tenant>> {
        let row: Option<Row> = sqlx::query_as(
            "SELECT id, display_name, created, version FROM tenants
             WHERE id = ?1 AND (?2 IS NULL OR id = ?2)",
        )
        .bind(id.as_str())
        .bind(scope.map(TenantId::as_str))
        .fetch_optional(&self.inner.readers)
        .await?;
        row.map(tenant).transpose()
    }

    /// # Errors
    /// [`StoreError::Conflict`] if the id is taken.
    pub async fn create_tenant(&self, tenant: Tenant) -> Result<()> {
        self.owned(
            async move |inner: std::sync::Arc<super::Inner>| -> Result<()> {
                let mut change = inner.begin().await?;
                sqlx::query(
                    "INSERT INTO tenants (id, display_name, created, version) VALUES (?, ?, ?, ?)",
                )
                .bind(tenant.id.as_str())
                .bind(tenant.display_name)
                .bind(millis(tenant.created))
                .bind(tenant.version)
                .execute(&mut *change.tx)
                .await?;
                change.commit().await?;
                Ok(())
            },
        )
        .await
    }

    /// Its API tokens go with it.
    ///
    /// # Errors
    /// [`StoreError::Missing`]; [`StoreError::InUse`] while it has clusters.
    pub async fn delete_tenant(&self, id: TenantId) -> Result<()> {
        self.owned(
            async move |inner: std::sync::Arc<super::Inner>| -> Result<()> {
                let mut change = inner.begin().await?;
                let done = sqlx::query("DELETE FROM tenants WHERE id = ?")
                    .bind(id.as_str())
                    .execute(&mut *change.tx)
                    .await?;
                if done.rows_affected() == 0 {
                    return Err(StoreError::Missing);
                }
                let _turn = change.commit().await?;
                inner
                    .index
                    .keep_tokens(|token| token.tenant.as_ref() != Some(&id));
                Ok(())
            },
        )
        .await
    }
}

fn tenant((id, display_name, created, version): Row) -> Result<Tenant> {
    Ok(Tenant {
        id: parse(&id)?,
        display_name,
        created: time(created)?,
        version,
    })
}
