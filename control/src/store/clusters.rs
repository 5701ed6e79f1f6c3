//! Clusters in the store.

use std::{net::IpAddr, sync::Arc};

use fairlead_api::{
    ClusterId, ClusterUid, Code, TenantId,
    resources::{CloneSeen, ClusterStatus, LastError, State},
};
use fairlead_certs::Registration;
use time::OffsetDateTime;

use super::{Bootstrap, Home, Inner, Result, Store, StoreError, millis, parse, time};

/// A cluster as it is registered.
#[derive(Debug, Clone)]
pub struct NewCluster {
    pub id: ClusterId,
    pub tenant: TenantId,
    pub display_name: String,
    pub registration: Registration,
    pub created: OffsetDateTime,
    /// When its first bootstrap token expires.
    pub bootstrap_expires: OffsetDateTime,
}

/// A cluster as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterRow {
    pub id: ClusterId,
    pub tenant: TenantId,
    pub display_name: String,
    pub created: OffsetDateTime,
    pub version: i64,
    pub status: ClusterStatus,
    pub uid: Option<ClusterUid>,
    pub clone: Option<CloneSeen>,
    pub bootstrap: Bootstrap,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: String,
    tenant: String,
    display_name: String,
    created: i64,
    version: i64,
    state: String,
    since: i64,
    error_code: Option<u16>,
    error_cause: Option<String>,
    uid: Option<String>,
    clone_uid: Option<String>,
    clone_from: Option<String>,
    clone_seen: Option<i64>,
    generation: i64,
    expires: i64,
    spent_by: Option<Vec<u8>>,
}

impl Store {
    /// Where a cluster belongs, from memory.
    #[must_use]
    pub fn home(&self, cluster: &ClusterId) -> Option<Home> {
        self.inner.index.home(cluster)
    }

    /// By id; with `scope`, those of that tenant alone.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn clusters(&self, scope: Option<&TenantId>) -> Result<Vec<ClusterRow>> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT * FROM clusters JOIN bootstraps ON cluster = id
             WHERE ?1 IS NULL OR tenant = ?1 ORDER BY id",
        )
        .bind(scope.map(TenantId::as_str))
        .fetch_all(&self.inner.readers)
        .await?;
        rows.into_iter().map(cluster).collect()
    }

    /// One query, whether the cluster does not exist or is not of `scope`: both take the same time.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn cluster(
        &self,
        id: &ClusterId,
        scope: Option<&TenantId>,
    ) -> Result<Option<ClusterRow>> {
        let row: Option<Row> = sqlx::query_as(
            "SELECT * FROM clusters JOIN bootstraps ON cluster = id
             WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)",
        )
        .bind(id.as_str())
        .bind(scope.map(TenantId::as_str))
        .fetch_optional(&self.inner.readers)
        .await?;
        row.map(cluster).transpose()
    }

    /// With its first bootstrap token, generation 1.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if the id is taken, [`StoreError::Missing`] if there is no such tenant.
    pub async fn create_cluster(&self, new: NewCluster) -> Result<()> {
        self.owned(async move |inner: Arc<Inner>| -> Result<()> {
            let mut change = inner.begin().await?;
            sqlx::query(
                "INSERT INTO clusters (id, tenant, display_name, created, version, registration, state, since)
                 VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6, ?4)",
            )
            .bind(new.id.as_str())
            .bind(new.tenant.as_str())
            .bind(new.display_name)
            .bind(millis(new.created))
            .bind(new.registration.as_bytes().as_slice())
            .bind(State::Never.to_string())
            .execute(&mut *change.tx)
            .await
            .map_err(|error| match error.into() {
                StoreError::InUse => StoreError::Missing,
                other => other,
            })?;
            sqlx::query("INSERT INTO bootstraps (cluster, generation, expires) VALUES (?, 1, ?)")
                .bind(new.id.as_str())
                .bind(millis(new.bootstrap_expires))
                .execute(&mut *change.tx)
                .await?;
            let _turn = change.commit().await?;
            let home = Home {
                tenant: new.tenant,
                registration: new.registration,
                key: None,
                uid: None,
            };
            inner.index.set_home(new.id, Some(home));
            Ok(())
        })
        .await
    }

    /// Its bootstrap token and its catalog go with it.
    ///
    /// # Errors
    /// [`StoreError::Missing`], also if it is not of the tenant of `scope`.
    pub async fn delete_cluster(&self, id: ClusterId, scope: Option<TenantId>) -> Result<()> {
        self.owned(async move |inner: Arc<Inner>| -> Result<()> {
            let mut change = inner.begin().await?;
            let done =
                sqlx::query("DELETE FROM clusters WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)")
                    .bind(id.as_str())
                    .bind(scope.as_ref().map(TenantId::as_str))
                    .execute(&mut *change.tx)
                    .await?;
            if done.rows_affected() == 0 {
                return Err(StoreError::Missing);
            }
            let _turn = change.commit().await?;
            inner.index.set_home(id, None);
            Ok(())
        })
        .await
    }

    /// Keeps what is known of a cluster; of one that is gone, nothing.
    ///
    /// Not synced to the disk at once: it is told again after a restart.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn set_status(&self, id: &ClusterId, status: &ClusterStatus) -> Result<()> {
        let error = status.last_error.as_ref();
        sqlx::query(
            "UPDATE clusters SET state = ?, since = ?, error_code = ?, error_cause = ? WHERE id = ?",
        )
        .bind(status.state.to_string())
        .bind(millis(status.since))
        .bind(error.map(|error| error.code.number()))
        .bind(error.map(|error| &error.cause))
        .bind(id.as_str())
        .execute(&self.inner.reporter)
        .await?;
        Ok(())
    }

    /// Says of every cluster that seemed connected that it is lost: sessions do not outlive the hub.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn lose_sessions(&self, now: OffsetDateTime, cause: &str) -> Result<u64> {
        let done = sqlx::query(
            "UPDATE clusters SET state = ?, since = ?, error_code = ?, error_cause = ?
             WHERE state IN (?, ?)",
        )
        .bind(State::Lost.to_string())
        .bind(millis(now))
        .bind(Code::Lost.number())
        .bind(cause)
        .bind(State::Connected.to_string())
        .bind(State::ApiUnreachable.to_string())
        .execute(&self.inner.reporter)
        .await?;
        Ok(done.rows_affected())
    }
}

fn cluster(row: Row) -> Result<ClusterRow> {
    let last_error = match (row.error_code, row.error_cause) {
        (Some(code), Some(cause)) => Some(LastError {
            code: Code::from_number(code).ok_or_else(|| StoreError::Damaged(code.to_string()))?,
            cause,
        }),
        _ => None,
    };
    let clone = match (row.clone_uid, row.clone_from, row.clone_seen) {
        (Some(uid), Some(from), Some(seen)) => Some(CloneSeen {
            last_seen: time(seen)?,
            from: parse::<IpAddr>(&from)?,
            uid: parse(&uid)?,
        }),
        _ => None,
    };
    Ok(ClusterRow {
        id: parse(&row.id)?,
        tenant: parse(&row.tenant)?,
        display_name: row.display_name,
        created: time(row.created)?,
        version: row.version,
        status: ClusterStatus {
            state: state(&row.state)?,
            since: time(row.since)?,
            last_error,
            last_seen: None,
            last_good_probe: None,
        },
        uid: row.uid.as_deref().map(parse).transpose()?,
        clone,
        bootstrap: Bootstrap::new(row.generation, row.expires, row.spent_by)?,
    })
}

fn state(text: &str) -> Result<State> {
    [
        State::Never,
        State::Connected,
        State::ApiUnreachable,
        State::Lost,
    ]
    .into_iter()
    .find(|state| state.to_string() == text)
    .ok_or_else(|| StoreError::Damaged(text.to_owned()))
}
