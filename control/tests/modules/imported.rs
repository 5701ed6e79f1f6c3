//! Imported facts: shown as stale until a source reports to this hub.

use fairlead_api::{Code, resources::Role};
use fairlead_seam::{Caller, ClusterScope};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::rig::{Rig, admin, caller};

const CLUSTER: &str = "/clusters/c-demo";

async fn import(rig: &Rig, facts: Value) {
    let path = format!("/v1{CLUSTER}/facts/imported");
    let body = json!({ "facts": facts });
    rig.call(&admin(), Method::POST, &path, body).await.good();
}

/// Value, source and staleness by fact name.
async fn known(rig: &Rig) -> Value {
    let facts = rig.get(&admin(), &format!("/v1{CLUSTER}/facts")).await;
    let facts = facts.good()["items"].clone();
    let facts = facts.as_array().unwrap().iter().map(|it| {
        let name = it["name"].as_str().unwrap().to_owned();
        (name, json!([it["value"], it["source"], it["stale"]]))
    });
    facts.collect::<serde_json::Map<_, _>>().into()
}

#[tokio::test]
async fn an_imported_fact_is_stale_until_reported() {
    let rig = Rig::new().await;
    rig.cluster("demo", "t-default").await;
    let version = json!({ "major": "1", "minor": "30" });
    let facts = json!({ "kubernetesVersion": version, "racks": 3, "gone": null });
    import(&rig, facts.clone()).await;
    let revision = *rig.control.revision().borrow();
    import(&rig, facts.clone()).await;
    assert_eq!(*rig.control.revision().borrow(), revision, "nothing is new");
    let path = format!("/v1{CLUSTER}/facts/imported");
    let nobody = rig.nobody(Method::POST, &path, r#"{"facts":{}}"#).await;
    assert_eq!(nobody.status, StatusCode::UNAUTHORIZED);
    assert_eq!(
        known(&rig).await,
        json!({ "kubernetesVersion": [version, "import", true], "racks": [3, "import", true] })
    );
    // An unrelated change does not confirm the fact.
    let name = json!({ "displayName": "Demo" });
    rig.call(&admin(), Method::PATCH, CLUSTER, name)
        .await
        .good();
    let steward = Caller {
        clusters: ClusterScope::One("c-demo".parse().unwrap()),
        ..caller(Role::Cluster, None)
    };
    let same = json!({ "dynamicFacts": { "kubernetesVersion": version } });
    rig.call(&steward, Method::PATCH, CLUSTER, same)
        .await
        .good();
    let expected =
        json!({ "kubernetesVersion": [version, "steward", false], "racks": [3, "import", true] });
    assert_eq!(known(&rig).await, expected);
    import(&rig, json!({ "kubernetesVersion": { "minor": "1" } })).await;
    assert_eq!(known(&rig).await, expected);
}

#[tokio::test]
async fn an_uninvited_cluster_has_no_open_token() {
    let rig = Rig::new().await;
    let path = format!("{CLUSTER}?withoutBootstrapToken=true");
    let body = json!({ "tenant": "t-default" });
    let made = rig.call(&admin(), Method::PUT, &path, body.clone()).await;
    assert_eq!(made.status, StatusCode::CREATED);
    for field in ["installURL", "join", "agentInstallURL"] {
        assert_eq!(made.json()[field], Value::Null, "{field}");
    }
    let token = format!("/v1{CLUSTER}/bootstrap-token");
    assert_eq!(rig.get(&admin(), &token).await.code(), Code::NotFound);
    // An explicit invitation is not revoked by an import.
    rig.call(&admin(), Method::POST, &token, json!({}))
        .await
        .good();
    rig.call(&admin(), Method::PUT, &path, body).await.good();
    rig.get(&admin(), &token).await.good();
}
