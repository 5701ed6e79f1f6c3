//! The store: the contract that every implementation of it must keep, and what is SQLite's own.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking; clippy knows its helpers only inside of a test module"
)]

mod contract;
mod sqlite;

use std::time::Duration;

use fairlead_api::{
    ClusterId, TenantId,
    resources::{ApiToken, Role, Tenant},
};
use fairlead_certs::Registration;
use fairlead_control::store::{Claim, NewCluster, SpendError, Store, TokenRow};
use tempfile::TempDir;
use time::{OffsetDateTime, macros::datetime};

pub(crate) const NOW: OffsetDateTime = datetime!(2026-11-21 12:00:00.25 UTC);
pub(crate) const SOON: OffsetDateTime = datetime!(2026-11-21 12:30 UTC);

pub(crate) async fn store() -> (Store, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (open(&dir).await, dir)
}

pub(crate) async fn open(dir: &TempDir) -> Store {
    let path = dir.path().join("fairlead.db");
    Store::open_with(&path, Duration::from_millis(50))
        .await
        .unwrap()
}

pub(crate) fn cluster_id(text: &str) -> ClusterId {
    text.parse().unwrap()
}

pub(crate) fn tenant_id(text: &str) -> TenantId {
    text.parse().unwrap()
}

pub(crate) fn tenant(id: &str) -> Tenant {
    Tenant {
        id: tenant_id(id),
        display_name: id.to_uppercase(),
        created: NOW,
        version: 1,
    }
}

pub(crate) fn new_cluster(id: &str, tenant: &str) -> NewCluster {
    NewCluster {
        id: cluster_id(id),
        tenant: tenant_id(tenant),
        display_name: id.to_owned(),
        registration: Registration::random().unwrap(),
        created: NOW,
        bootstrap_expires: SOON,
    }
}

pub(crate) fn token(id: &str, tenant: Option<&str>, expires: OffsetDateTime) -> TokenRow {
    TokenRow {
        hash: [7; 32],
        about: ApiToken {
            id: id.to_owned(),
            name: "alice".to_owned(),
            role: Role::Operator,
            tenant: tenant.map(tenant_id),
            created: NOW,
            expires,
        },
    }
}

pub(crate) fn claim(cluster: &str, generation: i64, key: u8) -> Claim {
    Claim {
        cluster: cluster_id(cluster),
        generation,
        expires: SOON,
        fingerprint: [key; 32],
        uid: None,
    }
}

pub(crate) async fn spend(
    store: &Store,
    claim: Claim,
    now: OffsetDateTime,
) -> Result<bool, SpendError> {
    let spent = store.spend(claim, now, |home| Ok(home.tenant.clone()));
    spent.await.map(|enrolled| {
        assert_eq!(enrolled.tenant, enrolled.signed);
        enrolled.again
    })
}
