//! Helpers for the tests of all backends.

pub(crate) use std::sync::Arc;

pub(crate) use fairlead_api::{
    ClusterId, TenantId,
    resources::{Role, ServiceProtocol},
};
pub(crate) use fairlead_certs::Registration;
pub(crate) use fairlead_control::enroll::{self, SpendError, TokenClaim};
pub(crate) use fairlead_store::{
    Actor, Clock, Draft, Presented, Record, Store, StoreError,
    model::{Binding, Bootstrap, Cluster, ServiceRecord, Tenant, Token},
};
pub(crate) use serde_json::Value;

pub(crate) use crate::rig::{Home, home, open_at};
pub(crate) use time::{OffsetDateTime, macros::datetime};

pub(crate) const NOW: OffsetDateTime = datetime!(2026-11-21 12:00:00.25 UTC);
pub(crate) const SOON: OffsetDateTime = datetime!(2026-11-21 12:30 UTC);

pub(crate) async fn store() -> (Store, Home) {
    let home = home().await;
    (open(&home).await, home)
}

pub(crate) async fn open(home: &Home) -> Store {
    open_at(home, Clock::new(|| NOW)).await
}

/// Starts as a hub at this URL, without a predecessor.
pub(crate) async fn begin(store: &Store, url: &str) {
    begin_instead(store, url, None).await;
}

pub(crate) async fn begin_instead(store: &Store, url: &str, instead_of: Option<&str>) -> usize {
    let presented = Presented {
        url: url.parse().unwrap(),
        address: url.parse().unwrap(),
        agents: Default::default(),
        instead_of: instead_of.map(str::to_owned),
    };
    store
        .begin(presented, SOON, "the hub was restarted")
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
        display_name: Some(id.to_uppercase()),
        ..Tenant::new(tenant_id(id), NOW)
    }
}

pub(crate) fn child(id: &str, parent: &str) -> Tenant {
    Tenant {
        parent: Some(tenant_id(parent)),
        ..tenant(id)
    }
}

pub(crate) fn cluster(id: &str, tenant: &str) -> Cluster {
    let bootstrap = Bootstrap::new(1, SOON, None);
    let binding = Binding::open(registration(), bootstrap);
    Cluster::new(cluster_id(id), tenant_id(tenant), binding, NOW)
}

pub(crate) fn token(id: &str, tenant: Option<&str>, expires: OffsetDateTime) -> Token {
    Token {
        id: id.to_owned(),
        hash: [7; 32],
        name: "alice".to_owned(),
        role: Role::Operator,
        tenant: tenant.map(tenant_id),
        cluster: None,
        created: NOW,
        expires,
        created_by: None,
        owner: None,
        exchanged: false,
        exchange_rules: None,
        roles: Vec::new(),
        replaces: false,
    }
}

pub(crate) fn alice() -> Actor {
    Actor::Caller {
        name: "alice".to_owned(),
        token: None,
    }
}

/// Applies a change that fails only by the store's own rules.
pub(crate) async fn change<T: Send + 'static>(
    store: &Store,
    decide: impl FnMut(&mut Draft) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    Ok(store.change(alice(), decide).await?.value)
}

pub(crate) async fn put_tenant(store: &Store, tenant: Tenant) -> Result<(), StoreError> {
    change(store, move |draft| draft.put_tenant(tenant.clone())).await
}

pub(crate) async fn delete_tenant(store: &Store, id: &str) -> Result<(), StoreError> {
    let id = tenant_id(id);
    change(store, move |draft| draft.delete_tenant(&id)).await
}

pub(crate) async fn put_cluster(store: &Store, cluster: Cluster) -> Result<(), StoreError> {
    change(store, move |draft| draft.put_cluster(cluster.clone())).await
}

pub(crate) async fn delete_cluster(store: &Store, id: &str) -> Result<(), StoreError> {
    let id = cluster_id(id);
    change(store, move |draft| draft.delete_cluster(&id)).await
}

pub(crate) async fn put_token(store: &Store, token: Token) -> Result<(), StoreError> {
    change(store, move |draft| draft.put_token(token.clone())).await
}

pub(crate) fn service(name: &str, cluster: &str) -> ServiceRecord {
    ServiceRecord {
        name: name.parse().unwrap(),
        cluster: cluster_id(cluster),
        target: "db.shop:5432".to_owned(),
        protocol: ServiceProtocol::Tcp,
        port: Some(20_000),
        host: None,
        from: vec!["10.0.0.0/8".to_owned()],
        callers: false,
        created_by: "alice".to_owned(),
        created: NOW,
    }
}

pub(crate) async fn put_service(store: &Store, service: ServiceRecord) -> Result<(), StoreError> {
    change(store, move |draft| draft.put_service(service.clone())).await
}

pub(crate) async fn put_catalog(
    store: &Store,
    id: &str,
    objects: Vec<Value>,
) -> Result<u64, StoreError> {
    let id = cluster_id(id);
    change(store, move |draft| draft.put_catalog(&id, objects.clone())).await
}

pub(crate) fn kept(store: &Store, id: &str) -> Arc<Record<Cluster>> {
    store.view().cluster(&cluster_id(id)).unwrap().clone()
}

/// Registration of each cluster.
fn registration() -> Registration {
    Registration::from_bytes([0x41, 2, 3, 4, 5, 6, 7, 8])
}

pub(crate) fn claim(cluster: &str, generation: i64, key: u8) -> TokenClaim {
    TokenClaim {
        cluster: cluster_id(cluster),
        registration: registration(),
        generation,
        expires: SOON,
        fingerprint: [key; 32],
        uid: None,
    }
}

pub(crate) async fn spend(
    store: &Store,
    claim: TokenClaim,
    now: OffsetDateTime,
) -> Result<bool, SpendError> {
    let spent = enroll::spend(store, claim, now, |cluster| Ok(cluster.tenant.clone()));
    spent.await.map(|enrolled| {
        assert_eq!(enrolled.tenant, enrolled.signed);
        enrolled.again
    })
}
