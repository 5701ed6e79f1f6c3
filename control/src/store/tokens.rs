//! API tokens in the store: hashes, never tokens.

use fairlead_api::{
    TenantId,
    resources::{ApiToken, Role},
};
use sqlx::SqlitePool;
use time::OffsetDateTime;

use super::{Inner, Result, Store, StoreError, TokenRow, millis, parse, time};
use std::sync::Arc;

type Row = (String, Vec<u8>, String, String, Option<String>, i64, i64);

pub(super) async fn all(pool: &SqlitePool) -> Result<Vec<TokenRow>> {
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT id, hash, name, role, tenant, created, expires FROM tokens ORDER BY id",
    )
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(token).collect()
}

impl Store {
    /// The token with this id, from memory.
    #[must_use]
    pub fn token(&self, id: &str) -> Option<TokenRow> {
        self.inner.index.token(id)
    }

    /// By id; with `scope`, those on that tenant alone.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn tokens(&self, scope: Option<&TenantId>) -> Result<Vec<ApiToken>> {
        let mut rows = all(&self.inner.readers).await?;
        rows.retain(|row| scope.is_none() || row.about.tenant.as_ref() == scope);
        Ok(rows.into_iter().map(|row| row.about).collect())
    }

    /// # Errors
    /// [`StoreError::Missing`] if its tenant does not exist.
    pub async fn create_token(&self, row: TokenRow) -> Result<()> {
        self.owned(async move |inner: Arc<Inner>| -> Result<()> {
            let mut change = inner.begin().await?;
            let about = &row.about;
            sqlx::query(
                "INSERT INTO tokens (id, hash, name, role, tenant, created, expires)
                 VALUES (?, ?, ?, ?, ?, ?, ?)",
            )
            .bind(&about.id)
            .bind(row.hash.as_slice())
            .bind(&about.name)
            .bind(about.role.as_str())
            .bind(about.tenant.as_ref().map(TenantId::as_str))
            .bind(millis(about.created))
            .bind(millis(about.expires))
            .execute(&mut *change.tx)
            .await
            .map_err(|error| match error.into() {
                StoreError::InUse => StoreError::Missing,
                other => other,
            })?;
            let _turn = change.commit().await?;
            inner.index.add_token(row);
            Ok(())
        })
        .await
    }

    /// # Errors
    /// [`StoreError::Missing`], also if it is not on the tenant of `scope`.
    pub async fn delete_token(&self, id: String, scope: Option<TenantId>) -> Result<()> {
        self.owned(async move |inner: Arc<Inner>| -> Result<()> {
            let mut change = inner.begin().await?;
            let done =
                sqlx::query("DELETE FROM tokens WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)")
                    .bind(&id)
                    .bind(scope.as_ref().map(TenantId::as_str))
                    .execute(&mut *change.tx)
                    .await?;
            if done.rows_affected() == 0 {
                return Err(StoreError::Missing);
            }
            let _turn = change.commit().await?;
            inner.index.keep_tokens(|token| token.id != id);
            Ok(())
        })
        .await
    }

    /// Forgets tokens that had expired by `before`; says how many.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn forget_tokens(&self, before: OffsetDateTime) -> Result<u64> {
        self.owned(async move |inner: Arc<Inner>| -> Result<u64> {
            let mut change = inner.begin().await?;
            let done = sqlx::query("DELETE FROM tokens WHERE expires < ?")
                .bind(millis(before))
                .execute(&mut *change.tx)
                .await?;
            let _turn = change.commit().await?;
            inner.index.keep_tokens(|token| token.expires >= before);
            Ok(done.rows_affected())
        })
        .await
    }
}

fn token((id, hash, name, role, tenant, created, expires): Row) -> Result<TokenRow> {
    Ok(TokenRow {
        hash: hash
            .try_into()
            .map_err(|_| StoreError::Damaged("a hash".to_owned()))?,
        about: ApiToken {
            id,
            name,
            role: parse::<Role>(&role)?,
            tenant: tenant.as_deref().map(parse).transpose()?,
            created: time(created)?,
            expires: time(expires)?,
        },
    })
}
