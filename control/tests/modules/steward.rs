//! Rotation of Steward's token, with overlap.

use fairlead_api::resources::Role;
use fairlead_testkit::wait::until;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use time::Duration;

use crate::known::authenticate;
use crate::rig::{Rig, admin, caller};

const PATH: &str = "/v1/clusters/c-demo/steward-token";

fn token_of(secret: &Value) -> SecretString {
    secret["stringData"]["token"].as_str().unwrap().into()
}

#[tokio::test]
async fn steward_is_accepted_during_the_whole_rotation() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    let join = rig.cluster("demo", "acme").await;
    let never = rig.post(&admin(), PATH, json!({})).await;
    assert_eq!(never.status, 404, "{}", never.text);
    let url = join.install_url.expose_secret();
    let path = url.strip_prefix("https://hub.example:8443").unwrap();
    let manifests = rig.open(path).await.good();
    let secret = manifests["items"].as_array().unwrap().last().unwrap();
    let old = token_of(secret);
    authenticate(&rig, &old).await.unwrap();

    // By age: a young token stays.
    let by_age = json!({ "olderThanSeconds": 86_400 });
    let young = rig.post(&admin(), PATH, by_age.clone()).await.good();
    assert_eq!(young, json!({ "cluster": "c-demo" }));
    rig.advance(Duration::days(2));
    let rotated = rig
        .post(&caller(Role::Tenant, Some("t-acme")), PATH, by_age)
        .await
        .good();
    assert_eq!(rotated["secret"]["metadata"], secret["metadata"]);
    let new = token_of(&rotated["secret"]);
    assert_ne!(new.expose_secret(), old.expose_secret());

    // Until Steward has the new token, the old one stays, however long that takes.
    rig.advance(Duration::days(30));
    authenticate(&rig, &old).await.unwrap();
    let steward = authenticate(&rig, &new).await.unwrap();
    assert_eq!(
        (steward.role, steward.clusters.id().unwrap().as_str()),
        (Role::Cluster, "c-demo")
    );
    // The previous pod may run for some minutes.
    rig.advance(Duration::minutes(9));
    authenticate(&rig, &old).await.unwrap();
    rig.advance(Duration::minutes(2));
    until(async || authenticate(&rig, &old).await.is_err()).await;
    authenticate(&rig, &new).await.unwrap();
}

#[tokio::test]
async fn rotation_needs_the_right_to_enrol_and_is_bounded() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    let join = rig.cluster("demo", "acme").await;
    let url = join.install_url.expose_secret();
    rig.open(url.strip_prefix("https://hub.example:8443").unwrap())
        .await
        .good();
    for (who, status) in [
        (caller(Role::Operator, Some("t-acme")), 403),
        (caller(Role::Viewer, None), 403),
        (caller(Role::Admin, Some("t-default")), 404),
    ] {
        assert_eq!(
            rig.post(&who, PATH, json!({})).await.status,
            status,
            "{}",
            who.name
        );
    }
    for _ in 1..8 {
        rig.post(&admin(), PATH, json!({})).await.good();
    }
    let many = rig.post(&admin(), PATH, json!({})).await;
    assert_eq!(many.status, 409, "{}", many.text);
}
