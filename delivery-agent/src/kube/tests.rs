use axum::http::Method;
use fairlead_apiserver::BearerToken;
use fairlead_manifests::{ObjectKey, ObjectKind, Scope};
use serde_json::json;

use super::*;
use crate::testing::FakeApi;

const PATH: &str = "/api/v1/namespaces/shop/configmaps/a";

fn config_map(value: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}, "data": {"k": value}})
}

async fn api() -> FakeApi {
    let api = FakeApi::start().await;
    api.put(
        "/api/v1/namespaces/shop",
        json!({"metadata": {"name": "shop"}}),
    );
    api
}

#[tokio::test]
async fn object_is_applied_read_and_deleted_by_its_uid_only() {
    let api = api().await;
    let client = api.client();
    assert_eq!(client.get(PATH).await.unwrap(), None);
    let applied = client
        .apply(PATH, "fairlead/b-a", false, false, &config_map("1"))
        .await
        .unwrap();
    let uid = applied["metadata"]["uid"].as_str().unwrap();
    let refused = client
        .delete(PATH, Some("other"), Propagation::Background)
        .await;
    assert_eq!(refused.unwrap_err().status(), Some(409));
    let deleted = client
        .delete(PATH, Some(uid), Propagation::Background)
        .await;
    assert_eq!(deleted.unwrap(), Deletion::Accepted);
    let again = client
        .delete(PATH, Some(uid), Propagation::Background)
        .await;
    assert_eq!(again.unwrap(), Deletion::Absent);
}

#[tokio::test]
async fn token_of_a_run_replaces_the_agents_credential_and_is_renewed_for_clones() {
    let api = api().await;
    let token = |text: &str| BearerToken::new(&text.into()).unwrap();
    let run = api.client().with_token(token("bound:none"), "run-1");
    let clone = run.clone();
    assert_eq!(run.get(PATH).await.unwrap_err().status(), Some(401));
    let uid = api.get("/api/v1/namespaces/shop").unwrap()["metadata"]["uid"].clone();
    run.renew_token(token(&format!("bound:{}", uid.as_str().unwrap())));
    assert_eq!(clone.get(PATH).await.unwrap(), None);
    assert!(api.client().get(PATH).await.is_ok());
}

#[tokio::test]
async fn refusal_keeps_status_and_body() {
    let api = api().await;
    api.set_fault(|method, _, _| {
        (method == Method::PATCH).then(|| crate::testing::status(422, "Invalid", "spec.x is wrong"))
    });
    let error = api
        .client()
        .apply(PATH, "m", true, true, &config_map("1"))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, KubeError::Status { status: 422, body } if body["reason"] == "Invalid")
    );
    assert!(error.to_string().contains("spec.x is wrong"), "{error}");
}

#[tokio::test]
async fn missing_api_server_is_unreachable() {
    let api = api().await;
    api.set_fault(|_, _, _| Some((503, json!(null))));
    assert!(api.client().get(PATH).await.unwrap_err().is_unavailable());
}

#[tokio::test]
async fn list_selects_by_label() {
    let api = api().await;
    for (name, bundle) in [("a", "b-a"), ("b", "b-b")] {
        let path = format!("/api/v1/namespaces/shop/configmaps/{name}");
        api.put(
            &path,
            json!({"metadata": {"name": name, "labels": {"fairlead/bundle": bundle}}}),
        );
    }
    let path = "/api/v1/namespaces/shop/configmaps";
    let query = Query::of_labels("fairlead/bundle=b-b").metadata_only();
    let list = api.client().list(path, &query).await.unwrap().unwrap();
    assert_eq!(list.items.len(), 1);
    assert_eq!(list.items[0]["metadata"]["name"], "b");
    assert!(!list.resource_version.is_empty());
    let unknown = "/apis/x.io/v1/things";
    assert_eq!(
        api.client().list(unknown, &Query::default()).await.unwrap(),
        None
    );
}

#[tokio::test]
async fn discovery_maps_kinds_and_keeps_a_known_table() {
    let api = api().await;
    let discovery = api.discovery();
    let kind = |group: &str, version: &str, kind: &str| ObjectKind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
    };
    let deployment = kind("apps", "v1", "Deployment");
    let found = discovery.resource(&deployment).await.unwrap().unwrap();
    let key = ObjectKey::of(
        &json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}),
    );
    let path = found.object_path(&key.unwrap());
    assert_eq!(path, "/apis/apps/v1/namespaces/shop/deployments/web");
    let thing = kind("x.io", "v1", "Thing");
    assert_eq!(discovery.resource(&thing).await.unwrap(), None);
    let entry = |text: &str| text.to_owned();
    let added = (
        entry("x.io"),
        entry("v1"),
        entry("things"),
        entry("Thing"),
        false,
    );
    api.world.lock().unwrap().kinds.push(added);
    discovery.invalidate().await;
    let found = discovery.resource(&thing).await.unwrap().unwrap();
    assert_eq!(found.scope, Scope::Cluster);
    api.take_requests();
    discovery.table_of([&thing, &deployment]).await.unwrap();
    assert!(api.take_requests().is_empty());
}

#[tokio::test]
async fn overloaded_api_server_gets_the_request_again_after_its_delay() {
    let api = api().await;
    let answers = std::sync::Mutex::new(0);
    api.set_fault(move |_, path, _| {
        let mut count = answers.lock().unwrap();
        *count += u32::from(path == PATH);
        (*count == 1).then(|| {
            let (code, mut body) = crate::testing::status(429, "TooManyRequests", "later");
            body["details"] = json!({"retryAfterSeconds": 1});
            (code, body)
        })
    });
    assert_eq!(api.client().get(PATH).await, Ok(None));
    assert_eq!(api.take_requests().len(), 2);
    // An endless overload is the answer in the end.
    api.set_fault(|_, _, _| {
        let (code, mut body) = crate::testing::status(429, "TooManyRequests", "later");
        body["details"] = json!({"retryAfterSeconds": 0});
        Some((code, body))
    });
    let error = api.client().get(PATH).await.unwrap_err();
    assert_eq!(error.status(), Some(429));
    assert_eq!(api.take_requests().len(), 4);
}
