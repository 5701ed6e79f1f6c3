//! Catalogs: versions, ETags, delivery.

use fairlead_api::{Code, resources::Role};
use fairlead_runtime::Process;
use fairlead_testkit::wait::{TEST_DEADLINE, eventually};
use http::{Method, header};
use serde_json::{Value, json};

use crate::{
    archives::uploaded,
    rig::{Rig, admin, caller},
};

const PATH: &str = "/v1/clusters/c-demo/catalog";

fn object(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } })
}

#[tokio::test]
async fn a_catalog_changes_from_the_version_that_was_read() {
    let rig = Rig::new().await;
    rig.cluster("demo", "t-default").await;
    let empty = rig.get(&admin(), PATH).await;
    assert_eq!(empty.good(), json!({ "version": 0, "objects": [] }));
    assert_eq!(empty.headers[header::ETAG], "\"0\"");
    let first = json!({ "version": 0, "objects": [object("a")] });
    let put = rig
        .call(&admin(), Method::PUT, PATH, first.clone())
        .await
        .good();
    assert_eq!(put["version"], 1);
    let stale = rig.call(&admin(), Method::PUT, PATH, first).await;
    assert_eq!(stale.code(), Code::Conflict);
    assert_eq!(
        rig.get(&caller(Role::Operator, None), PATH).await.good(),
        put
    );
    let viewer = rig.get(&caller(Role::Viewer, None), PATH).await;
    assert_eq!(viewer.code(), Code::NotAllowed, "it may hold Secrets");
    let nowhere = rig.get(&admin(), "/v1/clusters/c-nowhere/catalog").await;
    assert_eq!(nowhere.code(), Code::NoSuchCluster);
}

#[tokio::test]
async fn invalid_objects_are_rejected_by_index() {
    let rig = Rig::new().await;
    rig.cluster("demo", "t-default").await;
    for (bad, says) in [
        (json!("text"), "objects[1] has no apiVersion"),
        (json!({ "apiVersion": "v1" }), "objects[1] has no kind"),
        (
            json!({ "apiVersion": "v1", "kind": "ConfigMap" }),
            "objects[1] has no metadata.name",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "", "metadata": { "name": "x" } }),
            "objects[1] has no kind",
        ),
    ] {
        let body = json!({ "version": 0, "objects": [object("a"), bad] });
        let reply = rig.call(&admin(), Method::PUT, PATH, body).await;
        assert_eq!(reply.code(), Code::Invalid);
        assert!(reply.text.contains(says), "{}", reply.text);
    }
    let unknown = json!({ "version": 0, "objects": [], "namespace": "x" });
    let reply = rig.call(&admin(), Method::PUT, PATH, unknown).await;
    assert!(
        reply.text.contains("unknown field `namespace`"),
        "{}",
        reply.text
    );
    let large = json!({ "version": 0, "objects": [object(&"x".repeat(1_000_000))] });
    rig.call(&admin(), Method::PUT, PATH, large).await.good();
    let larger = json!({ "version": 1, "objects": [object(&"x".repeat(5_000_000))] });
    let reply = rig.call(&admin(), Method::PUT, PATH, larger).await;
    assert_eq!(reply.code(), Code::BadRequest);
}

#[tokio::test]
async fn a_delivered_catalog_is_a_bundle_that_people_do_not_change() {
    let rig = Rig::new().await;
    rig.cluster("demo", "t-default").await;
    let modules = rig.control.seam().modules;
    let mut modules = modules.into_iter();
    let delivery = modules.find(|it| it.name() == "delivery").unwrap();
    let _work = tokio::spawn(async move { delivery.run(Process::new()).await });
    let body = json!({ "version": 0, "objects": [object("a")] });
    rig.call(&admin(), Method::PUT, PATH, body).await.good();
    let enable = json!({ "deliverCatalog": true });
    let enabled = rig
        .call(&admin(), Method::PATCH, "/clusters/c-demo", enable)
        .await;
    assert_eq!(enabled.good()["deliverCatalog"], true);

    const DEPLOYMENT: &str = "/v1/clusters/c-demo/deployments/b-catalog";
    eventually(TEST_DEADLINE, "a deployment", async || {
        let reply = rig.get(&admin(), DEPLOYMENT).await;
        reply.status.is_success().then_some(())
    })
    .await
    .unwrap();
    let deployment = rig.get(&admin(), DEPLOYMENT).await.good();
    assert_eq!(deployment["bundle"], "b-catalog-c-demo");
    let suspend = format!("{DEPLOYMENT}/suspend");
    rig.call(&admin(), Method::POST, &suspend, json!({}))
        .await
        .good();
    let sync = format!("{DEPLOYMENT}/sync");
    let run = rig.call(&admin(), Method::POST, &sync, json!({})).await;
    assert_eq!(run.good()["bundle"], "b-catalog-c-demo");

    let artifact = uploaded(&rig, "t-default", &[("web.yaml", "a: 1\n")]).await;
    let document = json!({ "tenant": "t-default", "artifact": artifact });
    for (method, path) in [
        (Method::PUT, "/v1/bundles/b-catalog-c-demo"),
        (Method::PUT, "/v1/bundles/b-catalog"),
        (Method::PUT, "/v1/bundles/b-catalog-of-nobody"),
        (Method::DELETE, "/v1/bundles/b-catalog-c-demo"),
    ] {
        let reply = rig
            .call(&admin(), method.clone(), path, document.clone())
            .await;
        assert_eq!(reply.code(), Code::CatalogBundle, "{method} {path}");
    }
    let other = json!({ "version": 1, "objects": [object("b")] });
    rig.call(&admin(), Method::PUT, PATH, other).await.good();
    eventually(TEST_DEADLINE, "a second generation", async || {
        let bundle = rig.get(&admin(), "/v1/bundles/b-catalog-c-demo").await;
        (bundle.good()["generation"] == 2).then_some(())
    })
    .await
    .unwrap();
    let back = "/v1/bundles/b-catalog-c-demo/rollback";
    let reply = rig.call(&admin(), Method::POST, back, json!({})).await;
    assert_eq!(reply.code(), Code::CatalogBundle);
}
