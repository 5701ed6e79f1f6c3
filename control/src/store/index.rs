//! What every request asks for, in memory. Only the writer changes it, after its commit and before its turn ends.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
};

use fairlead_api::{ClusterId, ClusterUid, TenantId, resources::ApiToken};
use fairlead_certs::Registration;
use sqlx::SqlitePool;

use super::{Result, StoreError, parse};

/// Where a cluster belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    pub tenant: TenantId,
    /// Tells it from a deleted cluster that had the same id.
    pub registration: Registration,
    /// SHA-256 of the public key that has enrolled last.
    pub key: Option<[u8; 32]>,
    /// Which Kubernetes cluster it is, once an agent has told it.
    pub uid: Option<ClusterUid>,
}

/// An API token as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    pub about: ApiToken,
    /// SHA-256 of the token. A plain hash is enough: the token is 256 random bits, there is nothing to guess.
    pub hash: [u8; 32],
}

#[derive(sqlx::FromRow)]
struct HomeRow {
    id: String,
    tenant: String,
    registration: Vec<u8>,
    spent_by: Option<Vec<u8>>,
    uid: Option<String>,
}

impl HomeRow {
    fn home(self) -> Result<Home> {
        let damaged = |what: &str| StoreError::Damaged(what.to_owned());
        let registration = self.registration.try_into();
        let key = self.spent_by.map(TryInto::try_into).transpose();
        Ok(Home {
            tenant: parse(&self.tenant)?,
            registration: Registration::from_bytes(
                registration.map_err(|_| damaged("a registration"))?,
            ),
            key: key.map_err(|_| damaged("a fingerprint"))?,
            uid: self.uid.as_deref().map(parse).transpose()?,
        })
    }
}

#[derive(Default)]
pub(super) struct Index {
    homes: RwLock<HashMap<ClusterId, Home>>,
    tokens: RwLock<HashMap<String, TokenRow>>,
}

impl Index {
    pub(super) async fn load(pool: &SqlitePool) -> Result<Self> {
        let mut homes = HashMap::new();
        let clusters: Vec<HomeRow> = sqlx::query_as(
            "SELECT id, tenant, registration, spent_by, uid FROM clusters JOIN bootstraps ON cluster = id",
        )
        .fetch_all(pool)
        .await?;
        for row in clusters {
            homes.insert(parse(&row.id)?, row.home()?);
        }
        let tokens = super::tokens::all(pool).await?;
        let tokens = tokens.into_iter().map(|row| (row.about.id.clone(), row));
        Ok(Index {
            homes: RwLock::new(homes),
            tokens: RwLock::new(tokens.collect()),
        })
    }

    pub(super) fn home(&self, cluster: &ClusterId) -> Option<Home> {
        let homes = self.homes.read().unwrap_or_else(PoisonError::into_inner);
        homes.get(cluster).cloned()
    }

    pub(super) fn set_home(&self, cluster: ClusterId, home: Option<Home>) {
        let mut homes = self.homes.write().unwrap_or_else(PoisonError::into_inner);
        match home {
            Some(home) => homes.insert(cluster, home),
            None => homes.remove(&cluster),
        };
    }

    /// Changes what is known of a cluster, if it is there.
    pub(super) fn amend(&self, cluster: &ClusterId, change: impl FnOnce(&mut Home)) {
        let mut homes = self.homes.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(home) = homes.get_mut(cluster) {
            change(home);
        }
    }

    pub(super) fn token(&self, id: &str) -> Option<TokenRow> {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        tokens.get(id).cloned()
    }

    pub(super) fn add_token(&self, row: TokenRow) {
        let mut tokens = self.tokens.write().unwrap_or_else(PoisonError::into_inner);
        tokens.insert(row.about.id.clone(), row);
    }

    pub(super) fn keep_tokens(&self, keep: impl Fn(&ApiToken) -> bool) {
        let mut tokens = self.tokens.write().unwrap_or_else(PoisonError::into_inner);
        tokens.retain(|_, row| keep(&row.about));
    }
}
