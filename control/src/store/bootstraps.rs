//! Bootstrap tokens in the store: which generation is current, until when, and which key has spent it. Spending one and
//! signing for it is one transaction.

use std::sync::Arc;

use fairlead_api::{ClusterId, ClusterUid, Failure, TenantId};
use time::OffsetDateTime;

use super::{Home, Inner, Result, Store, StoreError, millis, time};

/// The current bootstrap token of a cluster, without what makes it one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bootstrap {
    /// Rises with every new token; older ones are void.
    pub generation: i64,
    pub expires: OffsetDateTime,
    /// SHA-256 of the public key that spent it.
    pub spent_by: Option<[u8; 32]>,
}

impl Bootstrap {
    pub(super) fn new(generation: i64, expires: i64, spent_by: Option<Vec<u8>>) -> Result<Self> {
        let spent_by = spent_by.map(TryInto::try_into).transpose();
        Ok(Bootstrap {
            generation,
            expires: time(expires)?,
            spent_by: spent_by.map_err(|_| StoreError::Damaged("a fingerprint".to_owned()))?,
        })
    }

    /// Whether somebody may still come with it.
    #[must_use]
    pub fn open(&self, now: OffsetDateTime) -> bool {
        self.spent_by.is_none() && now < self.expires
    }
}

/// A token that this hub has made, and the key it is to be spent for.
#[derive(Debug, Clone)]
pub struct Claim {
    pub cluster: ClusterId,
    pub generation: i64,
    /// As the token says.
    pub expires: OffsetDateTime,
    /// SHA-256 of the public key that spends it.
    pub fingerprint: [u8; 32],
    /// Which Kubernetes cluster it is spent in, if whoever spends it can tell.
    pub uid: Option<ClusterUid>,
}

/// Why a bootstrap token is not honoured.
#[derive(Debug, thiserror::Error)]
pub enum SpendError {
    #[error("there is no such token, or a newer one has taken its place")]
    Unknown,
    #[error("it has expired")]
    Expired,
    #[error("another key has spent it")]
    Spent,
    #[error("nothing could be signed for it")]
    Sign(#[source] Failure),
    #[error("the store failed")]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for SpendError {
    fn from(error: sqlx::Error) -> Self {
        SpendError::Store(error.into())
    }
}

/// What spending a token has led to.
#[derive(Debug)]
pub struct Enrolled<T> {
    pub tenant: TenantId,
    pub signed: T,
    /// The same key has asked before: its first answer was lost.
    pub again: bool,
}

impl Store {
    /// Puts a new token in the place of the current one, as long as that is of generation `current`.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if it is not, or the cluster is gone.
    pub async fn renew_bootstrap(
        &self,
        cluster: ClusterId,
        current: i64,
        expires: OffsetDateTime,
    ) -> Result<Bootstrap> {
        self.owned(async move |inner: Arc<Inner>| -> Result<Bootstrap> {
            let mut change = inner.begin().await?;
            let done = sqlx::query(
                "UPDATE bootstraps SET generation = generation + 1, expires = ?, spent_by = NULL
                 WHERE cluster = ? AND generation = ?",
            )
            .bind(millis(expires))
            .bind(cluster.as_str())
            .bind(current)
            .execute(&mut *change.tx)
            .await?;
            if done.rows_affected() == 0 {
                return Err(StoreError::Conflict);
            }
            sqlx::query("UPDATE clusters SET version = version + 1 WHERE id = ?")
                .bind(cluster.as_str())
                .execute(&mut *change.tx)
                .await?;
            change.commit().await?;
            Ok(Bootstrap {
                generation: current + 1,
                expires,
                spent_by: None,
            })
        })
        .await
    }

    /// Spends a token and signs, both or neither. The same key may come again until the token expires: its first answer
    /// may have been lost. Whoever spends it says which Kubernetes cluster it is from now on.
    ///
    /// # Errors
    /// [`SpendError`]; then nothing has changed.
    pub async fn spend<T, Sign>(
        &self,
        claim: Claim,
        now: OffsetDateTime,
        sign: Sign,
    ) -> std::result::Result<Enrolled<T>, SpendError>
    where
        T: Send + 'static,
        Sign: FnOnce(&Home) -> std::result::Result<T, Failure> + Send + 'static,
    {
        self.owned(async move |inner: Arc<Inner>| {
            let mut change = inner.begin().await?;
            let row: Option<(i64, i64, Option<Vec<u8>>)> = sqlx::query_as(
                "SELECT generation, expires, spent_by FROM bootstraps WHERE cluster = ?",
            )
            .bind(claim.cluster.as_str())
            .fetch_optional(&mut *change.tx)
            .await?;
            let (generation, expires, spent_by) = row.ok_or(SpendError::Unknown)?;
            let current = Bootstrap::new(generation, expires, spent_by)?;
            let again = may_spend(&current, &claim, now)?;
            if !again {
                sqlx::query("UPDATE bootstraps SET spent_by = ? WHERE cluster = ?")
                    .bind(claim.fingerprint.as_slice())
                    .bind(claim.cluster.as_str())
                    .execute(&mut *change.tx)
                    .await?;
                sqlx::query(
                    "UPDATE clusters SET uid = ?, clone_uid = NULL, clone_from = NULL, clone_seen = NULL
                     WHERE id = ?",
                )
                .bind(claim.uid.as_ref().map(ClusterUid::as_str))
                .bind(claim.cluster.as_str())
                .execute(&mut *change.tx)
                .await?;
            }
            let home = inner
                .index
                .home(&claim.cluster)
                .ok_or(SpendError::Unknown)?;
            let signed = sign(&home).map_err(SpendError::Sign)?;
            let _turn = change.commit().await?;
            if !again {
                inner.index.amend(&claim.cluster, |home| {
                    home.key = Some(claim.fingerprint);
                    home.uid = claim.uid;
                });
            }
            Ok(Enrolled {
                tenant: home.tenant,
                signed,
                again,
            })
        })
        .await
    }
}

/// Whether this key has spent it already.
fn may_spend(
    current: &Bootstrap,
    claim: &Claim,
    now: OffsetDateTime,
) -> std::result::Result<bool, SpendError> {
    if (current.generation, current.expires) != (claim.generation, claim.expires) {
        return Err(SpendError::Unknown);
    }
    if now >= current.expires {
        return Err(SpendError::Expired);
    }
    match &current.spent_by {
        None => Ok(false),
        Some(by) if *by == claim.fingerprint => Ok(true),
        Some(_) => Err(SpendError::Spent),
    }
}
