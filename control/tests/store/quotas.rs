//! Quotas of tenants.

use std::sync::atomic::Ordering;

use fairlead_api::{Code, resources::TenantQuotas};
use fairlead_store::{ExceededQuota, QuotaKind};

use serde_json::json;

use crate::{history::clocked, *};

async fn with_quotas(quotas: TenantQuotas) -> (Store, Home) {
    let (store, home) = store().await;
    let mut acme = tenant("t-acme");
    acme.quotas = Some(quotas);
    put_tenant(&store, acme).await.unwrap();
    put_tenant(&store, tenant("t-other")).await.unwrap();
    (store, home)
}

fn refused<T: std::fmt::Debug>(result: Result<T, StoreError>, kind: QuotaKind, limit: u32) {
    let expected = ExceededQuota {
        tenant: tenant_id("t-acme"),
        kind,
        limit,
    };
    match result {
        Err(StoreError::Quota(exceeded)) => assert_eq!(exceeded, expected),
        other => panic!("{other:?}"),
    }
}

async fn put_catalog(store: &Store, id: &str, objects: Vec<Value>) -> Result<u64, StoreError> {
    let id = cluster_id(id);
    change(store, move |draft| draft.put_catalog(&id, objects.clone())).await
}

#[tokio::test]
async fn a_tenant_gets_no_more_clusters_than_its_quota() {
    let (store, _home) = with_quotas(TenantQuotas {
        clusters: Some(2),
        ..TenantQuotas::default()
    })
    .await;
    for id in ["c-1", "c-2"] {
        put_cluster(&store, cluster(id, "t-acme")).await.unwrap();
    }
    let third = put_cluster(&store, cluster("c-3", "t-acme")).await;
    refused(third, QuotaKind::Clusters, 2);
    assert!(store.view().cluster(&cluster_id("c-3")).is_none());
    // Another tenant has clusters of its own; they cannot move here, either.
    put_cluster(&store, cluster("c-3", "t-other"))
        .await
        .unwrap();
    let moved = put_cluster(&store, cluster("c-3", "t-acme")).await;
    refused(moved, QuotaKind::Clusters, 2);
    // What is there can be edited, and a lowered quota refuses growth only.
    let mut acme = tenant("t-acme");
    acme.quotas = Some(TenantQuotas {
        clusters: Some(1),
        ..TenantQuotas::default()
    });
    put_tenant(&store, acme).await.unwrap();
    let mut edited = cluster("c-1", "t-acme");
    edited.display_name = Some("One".to_owned());
    put_cluster(&store, edited).await.unwrap();
    // The hub itself has no quota.
    let of_hub = cluster("c-4", "t-acme");
    let decide = move |draft: &mut Draft| draft.put_cluster(of_hub.clone());
    let done: Result<_, StoreError> = store.change(Actor::Hub, decide).await;
    done.unwrap();
}

#[tokio::test]
async fn tokens_of_a_tenant_and_of_its_clusters_count_together() {
    let (store, _home) = with_quotas(TenantQuotas {
        tokens: Some(2),
        ..TenantQuotas::default()
    })
    .await;
    put_cluster(&store, cluster("c-1", "t-acme")).await.unwrap();
    let put =
        async |token: Token| change(&store, move |draft| draft.put_token(token.clone())).await;
    put(token("1", Some("t-acme"), SOON)).await.unwrap();
    let mut of_cluster = token("2", None, SOON);
    of_cluster.cluster = Some(cluster_id("c-1"));
    put(of_cluster).await.unwrap();
    put(token("3", None, SOON)).await.unwrap();
    let third = put(token("4", Some("t-acme"), SOON)).await;
    refused(third, QuotaKind::Tokens, 2);
}

#[tokio::test]
async fn catalogs_are_limited_in_number_and_size() {
    let (store, _home) = with_quotas(TenantQuotas {
        catalogs: Some(1),
        catalog_bytes: Some(100),
        ..TenantQuotas::default()
    })
    .await;
    for id in ["c-1", "c-2"] {
        put_cluster(&store, cluster(id, "t-acme")).await.unwrap();
    }
    let large = vec![json!({ "data": "x".repeat(100) })];
    refused(
        put_catalog(&store, "c-1", large).await,
        QuotaKind::CatalogBytes,
        100,
    );
    put_catalog(&store, "c-1", vec![json!({})]).await.unwrap();
    put_catalog(&store, "c-1", Vec::new()).await.unwrap();
    refused(
        put_catalog(&store, "c-2", Vec::new()).await,
        QuotaKind::Catalogs,
        1,
    );
}

#[tokio::test]
async fn defaults_of_the_hub_hold_for_tenants_without_a_quota() {
    let (store, _home) = with_quotas(TenantQuotas {
        clusters: Some(2),
        ..TenantQuotas::default()
    })
    .await;
    store.set_quotas(TenantQuotas {
        clusters: Some(1),
        ..TenantQuotas::default()
    });
    for (id, tenant, granted) in [
        ("c-1", "t-acme", true),
        ("c-2", "t-acme", true),
        ("c-3", "t-other", true),
        ("c-4", "t-other", false),
    ] {
        let put = put_cluster(&store, cluster(id, tenant)).await;
        assert_eq!(put.is_ok(), granted, "{id}: {put:?}");
    }
}

#[tokio::test]
async fn changes_of_one_minute_are_limited() {
    let (store, _home, now) = clocked().await;
    let mut acme = tenant("t-acme");
    acme.quotas = Some(TenantQuotas {
        changes_per_minute: Some(3),
        ..TenantQuotas::default()
    });
    put_tenant(&store, acme).await.unwrap();
    let rename = async |number: u32| {
        let mut it = cluster("c-1", "t-acme");
        it.display_name = Some(format!("Name {number}"));
        put_cluster(&store, it).await
    };
    // The tenant itself was the first change.
    rename(1).await.unwrap();
    rename(2).await.unwrap();
    let refusal = rename(3).await;
    assert_eq!(refusal.as_ref().unwrap_err().code(), Code::TooManyChanges);
    refused(refusal, QuotaKind::Changes, 3);
    // An unchanged document is no change, and reports of agents are not limited.
    let id = cluster_id("c-1");
    let report = move |draft: &mut Draft| {
        draft.amend_cluster(&id, |it| it.display_name = Some("Agent".to_owned()))
    };
    let agent = Actor::Agent(cluster_id("c-1"));
    let done: Result<_, StoreError> = store.change(agent, report).await;
    done.unwrap();
    now.fetch_add(60_000, Ordering::SeqCst);
    rename(3).await.unwrap();
}
