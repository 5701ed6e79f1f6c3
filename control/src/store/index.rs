//! What every request asks for, in memory. Only the writer changes it, after its commit and before its turn ends.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
};

use fairlead_api::{ClusterId, TenantId, resources::ApiToken};
use fairlead_certs::Registration;
use sqlx::SqlitePool;

use super::{Result, StoreError, parse};

/// Where a cluster belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    pub tenant: TenantId,
    /// Tells it from a deleted cluster that had the same id.
    pub registration: Registration,
}

/// An API token as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    pub about: ApiToken,
    /// SHA-256 of the token. A plain hash is enough: the token is 256 random bits, there is nothing to guess.
    pub hash: [u8; 32],
}

#[derive(Default)]
pub(super) struct Index {
    homes: RwLock<HashMap<ClusterId, Home>>,
    tokens: RwLock<HashMap<String, TokenRow>>,
}

impl Index {
    pub(super) async fn load(pool: &SqlitePool) -> Result<Self> {
        let mut homes = HashMap::new();
        let clusters: Vec<(String, String, Vec<u8>)> =
            sqlx::query_as("SELECT id, tenant, registration FROM clusters")
                .fetch_all(pool)
                .await?;
        for (id, tenant, registration) in clusters {
            let registration = registration
                .try_into()
                .map_err(|_| StoreError::Damaged("a registration".to_owned()))?;
            let home = Home {
                tenant: parse(&tenant)?,
                registration: Registration::from_bytes(registration),
            };
            homes.insert(parse(&id)?, home);
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
