//! Changes of labels, groups and tenants that take bundles away from clusters.

use fairlead_api::{Code, resources::Role};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    archives::uploaded,
    rig::{Reply, Rig, admin, caller},
    rights::world,
};

const CLUSTER: &str = "/clusters/c-of-a";

/// A hub with a bundle for `site=edge` and the group `g-edge`, in the cluster `c-of-a`.
async fn delivered(policy: &str) -> Rig {
    let rig = Rig::new().await;
    world(&rig).await;
    let edge = json!({ "annotations": { "site": "edge", "other": "x" } });
    call(&rig, Method::PATCH, CLUSTER, edge).await.good();
    let group = json!({ "tenant": "t-a", "selector": "other=x" });
    call(&rig, Method::PUT, "/v1/groups/g-edge", group)
        .await
        .good();
    let artifact = uploaded(&rig, "t-a", &[("web.yaml", "a: 1\n")]).await;
    let bundle = json!({
        "tenant": "t-a",
        "artifact": artifact,
        "onUntarget": policy,
        "targets": [{ "selector": "site=edge" }],
    });
    call(&rig, Method::PUT, "/v1/bundles/b-labels", bundle.clone())
        .await
        .good();
    let mut by_group = bundle;
    by_group["targets"] = json!([{ "groups": ["g-edge"] }]);
    call(&rig, Method::PUT, "/v1/bundles/b-group", by_group)
        .await
        .good();
    rig
}

async fn call(rig: &Rig, method: Method, path: &str, body: Value) -> Reply {
    rig.call(&admin(), method, path, body).await
}

/// Sends a change without and with its confirmation; returns the removed deployments.
async fn confirmed(rig: &Rig, method: Method, path: &str, body: Value) -> Value {
    let refused = call(rig, method.clone(), path, body.clone()).await;
    assert_eq!(
        refused.code(),
        Code::RemovalNotConfirmed,
        "{path}: {}",
        refused.text
    );
    assert_eq!(refused.status, StatusCode::CONFLICT);
    let details = refused.json()["details"].clone();
    let confirm = details["confirm"].as_str().unwrap();
    let path = format!("{path}?confirm={confirm}");
    call(rig, method, &path, body).await.good();
    details["removed"].clone()
}

fn removed(bundles: &[&str], deletes: bool) -> Value {
    let removed = bundles.iter();
    let removed =
        removed.map(|it| json!({ "bundle": it, "cluster": "c-of-a", "deletes": deletes }));
    removed.collect()
}

#[tokio::test]
async fn a_label_that_takes_a_bundle_away_needs_a_confirmation() {
    let rig = delivered("keep").await;
    let name = json!({ "displayName": "Shop", "annotations": { "more": "y" } });
    call(&rig, Method::PATCH, CLUSTER, name).await.good();
    let core = json!({ "annotations": { "site": "core" } });
    let tried = call(
        &rig,
        Method::PATCH,
        &format!("{CLUSTER}?dryRun=true"),
        core.clone(),
    )
    .await;
    assert_eq!(tried.code(), Code::RemovalNotConfirmed);
    assert_eq!(
        confirmed(&rig, Method::PATCH, CLUSTER, core).await,
        removed(&["b-labels"], false)
    );
    let bundle = rig.get(&admin(), "/v1/bundles/b-labels").await.good();
    assert!(bundle.get("removals").is_none(), "its objects stay");
    let replaced = json!({ "tenant": "t-a" });
    assert_eq!(
        confirmed(&rig, Method::PUT, CLUSTER, replaced).await,
        removed(&["b-group"], false)
    );
}

#[tokio::test]
async fn confirmed_removals_leave_tombstones_until_the_cluster_is_targeted_again() {
    let rig = delivered("remove").await;
    let site = |value: &str| json!({ "annotations": { "site": value } });
    assert_eq!(
        confirmed(&rig, Method::PATCH, CLUSTER, site("core")).await,
        removed(&["b-labels"], true)
    );
    let shown = async || rig.get(&admin(), "/v1/bundles/b-labels").await.good();
    assert_eq!(shown().await["removals"], json!({ "c-of-a": 1 }));
    call(&rig, Method::PATCH, CLUSTER, site("edge"))
        .await
        .good();
    assert!(shown().await.get("removals").is_none());
}

#[tokio::test]
async fn a_change_of_a_group_is_checked_for_its_members() {
    let rig = delivered("keep").await;
    let path = "/v1/groups/g-edge";
    let wider = json!({ "tenant": "t-a", "selector": "other in (x, y)" });
    call(&rig, Method::PUT, path, wider.clone()).await.good();
    let other = json!({ "tenant": "t-a", "selector": "other=y" });
    assert_eq!(
        confirmed(&rig, Method::PUT, path, other).await,
        removed(&["b-group"], false)
    );
    call(&rig, Method::PUT, path, wider).await.good();
    assert_eq!(
        confirmed(&rig, Method::DELETE, path, Value::Null).await,
        removed(&["b-group"], false)
    );
}

#[tokio::test]
async fn a_cluster_that_moves_loses_the_bundles_of_its_tenant() {
    let rig = delivered("remove").await;
    // Its tenant delivers to it no longer, not even a tombstone.
    assert_eq!(
        confirmed(
            &rig,
            Method::POST,
            "/v1/clusters/c-of-a/tenant",
            json!({ "tenant": "t-b" })
        )
        .await,
        removed(&["b-group", "b-labels"], false)
    );
}

#[tokio::test]
async fn a_template_of_a_tenant_is_checked_for_its_clusters() {
    let rig = delivered("keep").await;
    let path = "/tenants/t-a";
    let template = |site: Value| json!({ "clusterTemplate": { "annotations": { "site": site } } });
    call(&rig, Method::PATCH, path, template(json!("edge")))
        .await
        .good();
    let own = json!({ "annotations": { "site": null } });
    call(&rig, Method::PATCH, CLUSTER, own).await.good();
    assert_eq!(
        confirmed(&rig, Method::PATCH, path, template(Value::Null)).await,
        removed(&["b-labels"], false)
    );
}

#[tokio::test]
async fn reports_of_a_cluster_are_never_refused() {
    let rig = delivered("remove").await;
    let mut bundle = rig.get(&admin(), "/v1/bundles/b-labels").await.good();
    let by_fact = json!({
        "tenant": "t-a",
        "artifact": bundle["artifact"].take(),
        "onUntarget": "remove",
        "targets": [{ "selector": "zone=a" }],
    });
    call(&rig, Method::PUT, "/v1/bundles/b-facts", by_fact)
        .await
        .good();
    let mut agent = caller(Role::Cluster, None);
    agent.clusters = fairlead_seam::ClusterScope::One("c-of-a".parse().unwrap());
    for zone in ["a", "b"] {
        let facts = json!({ "dynamicFacts": { "zone": zone } });
        rig.call(&agent, Method::PATCH, CLUSTER, facts).await.good();
    }
    let shown = rig.get(&admin(), "/v1/bundles/b-facts").await.good();
    assert!(
        shown.get("removals").is_none(),
        "nothing is removed: {shown}"
    );
}

#[tokio::test]
async fn bundles_of_a_tenant_above_are_not_named() {
    let rig = Rig::new().await;
    world(&rig).await;
    let child = json!({ "id": "child", "tenantRef": "t-a", "gitRepo": { "type": "unmanaged" } });
    rig.post(&admin(), "/tenants", child).await.good();
    rig.cluster("below", "t-child").await;
    let path = "/clusters/c-below";
    let edge = json!({ "annotations": { "site": "edge" } });
    call(&rig, Method::PATCH, path, edge).await.good();
    let artifact = uploaded(&rig, "t-a", &[("web.yaml", "a: 1\n")]).await;
    let bundle = json!({
        "tenant": "t-a",
        "artifact": artifact,
        "targets": [{ "selector": "site=edge" }],
    });
    call(&rig, Method::PUT, "/v1/bundles/b-above", bundle)
        .await
        .good();
    let of_child = caller(Role::Tenant, Some("t-child"));
    let core = json!({ "annotations": { "site": "core" } });
    let refused = rig.call(&of_child, Method::PATCH, path, core.clone()).await;
    assert_eq!(refused.code(), Code::RemovalNotConfirmed);
    assert!(!refused.text.contains("b-above"), "{}", refused.text);
    let confirm = refused.json()["details"]["confirm"].clone();
    let path = format!("{path}?confirm={}", confirm.as_str().unwrap());
    rig.call(&of_child, Method::PATCH, &path, core).await.good();
}
