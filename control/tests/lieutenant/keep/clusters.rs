//! Clusters as created and shown.

use serde_json::{Value, json};

use crate::rig::Rig;

/// Id of a new cluster.
async fn made(rig: &Rig, body: Value) -> String {
    let made = rig.call("POST", "/clusters", &body.to_string()).await;
    made.good()["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn ids_get_their_prefix() {
    let rig = Rig::new().await;
    assert_eq!(rig.tenant("acme").await["id"], "t-acme");
    assert_eq!(rig.tenant("t-other").await["id"], "t-other");
    let (without, with) = (
        json!({ "tenant": "t-acme", "id": "demo" }),
        json!({ "tenant": "acme", "id": "c-other" }),
    );
    assert_eq!(made(&rig, without).await, "c-demo");
    assert_eq!(made(&rig, with).await, "c-other");
}

#[tokio::test]
async fn ids_are_generated_unless_requested() {
    let rig = Rig::new().await;
    let tenant = json!({ "gitRepo": { "url": "ssh://g@e/a/b" } }).to_string();
    let tenant = rig.call("POST", "/tenants", &tenant).await.good();
    let tenant = tenant["id"].as_str().unwrap();
    let cluster = made(&rig, json!({ "tenant": tenant })).await;
    for (id, letter) in [(tenant, "t"), (&cluster, "c")] {
        let parts: Vec<&str> = id.split('-').collect();
        let [first, adjective, noun, digits] = parts.as_slice() else {
            panic!("{id}");
        };
        assert_eq!(*first, letter, "{id}");
        for word in [adjective, noun] {
            assert!(word.bytes().all(|b| b.is_ascii_lowercase()), "{id}");
        }
        assert!(digits.bytes().all(|b| b.is_ascii_digit()), "{id}");
        assert!(id.len() <= 63, "{id}");
    }
}

#[tokio::test]
async fn an_id_has_63_characters_at_most() {
    let rig = Rig::new().await;
    rig.tenant("t-acme").await;
    let longest = json!({ "id": "a".repeat(61), "tenant": "t-acme" });
    assert_eq!(made(&rig, longest).await.len(), 63);
    let long = json!({ "id": "a".repeat(62), "tenant": "t-acme" }).to_string();
    rig.call("POST", "/clusters", &long).await.is(400, "id");
    let path = format!("/clusters/c-{}", "a".repeat(62));
    rig.call("PUT", &path, &long).await.is(400, "id");
}

#[tokio::test]
async fn the_id_of_the_path_wins_on_put() {
    let rig = Rig::new().await;
    rig.tenant("t-acme").await;
    let body = json!({ "id": "c-elsewhere", "tenant": "t-acme" }).to_string();
    let put = rig.call("PUT", "/clusters/c-here", &body).await;
    assert_eq!((put.status, &put.json()["id"]), (201, &json!("c-here")));
    assert_eq!(rig.get("/clusters/c-elsewhere").await.status, 404);
    let body = json!({ "id": "t-elsewhere", "gitRepo": { "url": "ssh://g@e/a/b" } }).to_string();
    let put = rig.call("PUT", "/tenants/t-here", &body).await;
    assert_eq!((put.status, &put.json()["id"]), (201, &json!("t-here")));
}

#[tokio::test]
async fn every_cluster_has_a_repository_a_compilemeta_and_a_name() {
    let rig = Rig::new().await;
    rig.tenant("t-acme").await;
    let bare = rig
        .call("POST", "/clusters", r#"{"id":"x","tenant":"t-acme"}"#)
        .await
        .good();
    let list = rig.get("/clusters").await.good()[0].clone();
    for shown in [bare, list, rig.get("/clusters/c-x").await.good()] {
        assert_eq!(shown["gitRepo"], json!({}));
        assert_eq!(shown["compileMeta"], json!({}));
        assert_eq!(shown["displayName"], "c-x");
    }
}

#[tokio::test]
async fn put_makes_or_replaces() {
    let rig = Rig::new().await;
    rig.tenant("t-acme").await;
    let first = json!({
        "tenant": "t-acme", "facts": { "a": "1" }, "annotations": { "x": "1" },
        "displayName": "One", "gitRepo": { "url": "ssh://g@e/a/b" },
    });
    let put = rig.call("PUT", "/clusters/c-p", &first.to_string()).await;
    assert_eq!(
        (put.status, &put.json()["displayName"]),
        (201, &json!("One"))
    );
    let second = json!({ "tenant": "t-acme", "facts": { "b": "2" } });
    let put = rig.call("PUT", "/clusters/c-p", &second.to_string()).await;
    let shown = put.json();
    assert_eq!(put.status, 200);
    assert_eq!(shown["facts"], json!({ "b": "2" }));
    assert_eq!(shown["annotations"], json!({}));
    assert_eq!(shown["displayName"], "c-p");
    assert_eq!(shown["gitRepo"], json!({}));
}

#[tokio::test]
async fn put_leaves_the_dynamic_facts_of_a_cluster_that_is_there() {
    let rig = Rig::new().await;
    rig.tenant("t-acme").await;
    for (racks, status) in [(1, 201), (2, 200)] {
        let body = json!({ "tenant": "t-acme", "dynamicFacts": { "racks": racks } });
        let put = rig.call("PUT", "/clusters/c-p", &body.to_string()).await;
        assert_eq!(put.status, status);
        assert_eq!(put.json()["dynamicFacts"], json!({ "racks": 1 }));
    }
}
