//! Groups of clusters: members by labels, preconditions, visibility.

use fairlead_api::{Code, resources::Role};
use http::{Method, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    rig::{Rig, admin, caller},
    rights::world,
};

const PATH: &str = "/v1/groups/g-edge";

async fn put(rig: &Rig, tenant: &str, selector: &str) -> Value {
    let body = json!({ "tenant": tenant, "selector": selector });
    rig.call(&admin(), Method::PUT, PATH, body).await.good()
}

async fn label(rig: &Rig, cluster: &str, value: &str) {
    let body = json!({ "annotations": { "site": value } });
    let path = format!("/clusters/{cluster}");
    rig.call(&admin(), Method::PATCH, &path, body).await.good();
}

#[tokio::test]
async fn members_follow_labels_within_the_tenant() {
    let rig = Rig::new().await;
    world(&rig).await;
    let group = put(&rig, "t-a", "site=edge").await;
    assert_eq!(
        group,
        json!({ "id": "g-edge", "tenant": "t-a", "selector": "site=edge", "members": 0 })
    );
    label(&rig, "c-of-a", "edge").await;
    label(&rig, "c-of-b", "edge").await;
    let group = rig.get(&admin(), PATH).await.good();
    assert_eq!(group["members"], 1, "c-of-b belongs to another tenant");
    label(&rig, "c-of-a", "core").await;
    assert_eq!(rig.get(&admin(), PATH).await.good()["members"], 0);
    assert_eq!(put(&rig, "t-a", "site notin (edge)").await["members"], 1);
}

#[tokio::test]
async fn a_group_is_visible_to_its_tenant_and_above() {
    let rig = Rig::new().await;
    world(&rig).await;
    put(&rig, "t-a", "site=edge").await;
    let ids = async |role, tenant| {
        let list = rig.get(&caller(role, tenant), "/v1/groups").await.good();
        let items = list["items"].as_array().unwrap().iter();
        let ids = items.map(|it| it["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ids(Role::Viewer, None).await, ["g-a", "g-edge"]);
    assert_eq!(ids(Role::Viewer, Some("t-a")).await, ["g-a", "g-edge"]);
    assert_eq!(ids(Role::Admin, Some("t-b")).await, [""; 0]);

    let stranger = caller(Role::Admin, Some("t-b"));
    let (hidden, missing) = (
        rig.get(&stranger, PATH).await,
        rig.get(&stranger, "/v1/groups/g-none").await,
    );
    assert_eq!(
        (hidden.code(), missing.code()),
        (Code::NotFound, Code::NotFound)
    );
    assert_eq!(hidden.text.replace("edge", "none"), missing.text);
    let hidden = rig.delete(&stranger, PATH).await;
    assert_eq!(hidden.code(), Code::NotFound);
    for tenant in ["t-a", "t-none"] {
        let body = json!({ "tenant": tenant, "selector": "a=b" });
        let reply = rig.call(&stranger, Method::PUT, PATH, body).await;
        assert_eq!(reply.code(), Code::NotFound, "{tenant}");
    }
    let filtered = rig.get(&admin(), "/v1/groups?tenant=t-b").await.good();
    assert_eq!(filtered["items"], json!([]));
}

#[tokio::test]
async fn a_group_changes_from_the_version_that_was_read() {
    let rig = Rig::new().await;
    world(&rig).await;
    let body = json!({ "tenant": "t-a", "selector": "site=edge" });
    let dry = format!("{PATH}?dryRun=true");
    let tried = rig.call(&admin(), Method::PUT, &dry, body.clone()).await;
    assert_eq!(tried.status, StatusCode::CREATED);
    assert_eq!(rig.get(&admin(), PATH).await.code(), Code::NotFound);

    let created = rig.call(&admin(), Method::PUT, PATH, body.clone()).await;
    assert_eq!(created.status, StatusCode::CREATED);
    assert_eq!(created.headers[header::LOCATION], PATH);
    let tag = created.headers[header::ETAG].to_str().unwrap().to_owned();
    let known = (header::IF_MATCH, tag.as_str());
    let other = json!({ "tenant": "t-a", "selector": "site=core" });
    let who = admin();
    let first = rig.with_precondition(&who, Method::PUT, PATH, known.clone(), other);
    assert_eq!(first.await.status, StatusCode::OK);
    let second = rig.with_precondition(&who, Method::PUT, PATH, known.clone(), body);
    assert_eq!(second.await.code(), Code::ChangedMeanwhile);
    let deleted = rig.with_precondition(&who, Method::DELETE, PATH, known, Value::Null);
    assert_eq!(deleted.await.code(), Code::ChangedMeanwhile);
    assert_eq!(rig.delete(&who, PATH).await.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn invalid_groups_are_rejected() {
    let rig = Rig::new().await;
    world(&rig).await;
    for (path, body) in [
        (
            "/v1/groups/edge",
            json!({ "tenant": "t-a", "selector": "a=b" }),
        ),
        (
            "/v1/groups/g-Edge",
            json!({ "tenant": "t-a", "selector": "a=b" }),
        ),
        (PATH, json!({ "tenant": "t-a", "selector": "" })),
        (PATH, json!({ "tenant": "t-a", "selector": "a in (" })),
        (PATH, json!({ "tenant": "t-a" })),
        (
            PATH,
            json!({ "tenant": "t-a", "selector": "a=b", "clusters": [] }),
        ),
    ] {
        let reply = rig.call(&admin(), Method::PUT, path, body.clone()).await;
        assert_eq!(reply.code(), Code::Invalid, "{path} {body}");
    }
}

#[tokio::test]
async fn a_tenant_takes_its_groups_along() {
    let rig = Rig::new().await;
    world(&rig).await;
    rig.delete(&admin(), "/clusters/c-of-a").await;
    let refused = rig.delete(&admin(), "/tenants/t-a").await;
    assert_eq!(refused.code(), Code::InUse);
    assert!(refused.text.contains("groups"), "{}", refused.text);
    let gone = rig.delete(&admin(), "/tenants/t-a?cascade=true").await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    assert_eq!(
        rig.get(&admin(), "/v1/groups/g-a").await.code(),
        Code::NotFound
    );
}
