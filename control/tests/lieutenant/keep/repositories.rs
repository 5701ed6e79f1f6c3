//! Repositories of clusters, and Steward's deploy key.

use serde_json::{Value, json};

use crate::rig::Rig;

const KEY: &str = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAACAQ==";

fn key(key: &str) -> Value {
    json!({ "gitRepo": { "deployKey": key } })
}

#[tokio::test]
async fn a_deploy_key_is_a_type_and_base64() {
    let rig = Rig::new().await;
    rig.demo().await;
    for good in [KEY.to_owned(), format!("{KEY}\n")] {
        let after = rig.patch("/clusters/c-demo", &key(&good)).await.good();
        assert_eq!(after["gitRepo"]["deployKey"], good, "echoed as it came");
    }
    for bad in [
        "x",
        "ssh-rsa",
        "ssh-rsa ",
        "ssh-rsa AAAA me@here",
        "ssh-rsa !!!!",
        " ssh-rsa AAAA",
        "ssh-rsa AAAA\n\n",
    ] {
        let reply = rig.patch("/clusters/c-demo", &key(bad)).await;
        assert_eq!(
            (reply.status, reply.reason().as_str()),
            (400, "Illegal deploy key format"),
            "{bad:?}"
        );
    }
}

#[tokio::test]
async fn a_cluster_without_a_repository_takes_no_deploy_key() {
    let rig = Rig::new().await;
    rig.demo().await;
    let bare = r#"{"id":"bare","tenant":"t-acme"}"#;
    rig.call("POST", "/clusters", bare).await.good();
    let reply = rig.patch("/clusters/c-bare", &key(KEY)).await;
    assert_eq!(reply.status, 400);
    assert_eq!(
        reply.reason(),
        "Cannot set deploy key for unmanaged git repo"
    );
}

#[tokio::test]
async fn an_unmanaged_repository_takes_a_deploy_key() {
    let rig = Rig::new().await;
    let made = rig.demo().await;
    assert_eq!(made["gitRepo"]["type"], "unmanaged");
    let reply = rig.patch("/clusters/c-demo", &key(KEY)).await;
    assert_eq!(
        (reply.status, &reply.json()["gitRepo"]["deployKey"]),
        (200, &json!(KEY))
    );
}

#[tokio::test]
async fn the_deploy_key_is_the_one_that_is_named_steward() {
    let rig = Rig::new().await;
    rig.demo().await;
    rig.patch("/clusters/c-demo", &key(KEY)).await.good();
    let audit = rig.get("/v1/audit?cluster=c-demo").await.good();
    let lines = audit["items"].as_array().unwrap().iter();
    let mut kept = lines.filter_map(|line| line["after"]["gitRepo"].get("deployKeys"));
    assert_eq!(
        *kept.next().unwrap(),
        json!({ "steward": { "key": KEY, "writeAccess": false } })
    );
    let by_name =
        json!({ "gitRepo": { "deployKeys": { "steward": { "key": KEY, "writeAccess": true } } } });
    let refused = rig.patch("/clusters/c-demo", &by_name).await;
    refused.is(400, "\"steward\" is reserved for the agent");
}

#[tokio::test]
async fn the_url_of_a_managed_repository_has_a_group_and_a_name() {
    let rig = Rig::new().await;
    rig.demo().await;
    for (url, status) in [
        ("ssh://git@git.example/group/name.git", 201),
        ("git@git.example:group/name.git", 201),
        ("https://git.example/a/b/c", 201),
        ("ssh://git@git.example/name.git", 400),
        ("ssh://git@git.example", 400),
        ("name", 400),
    ] {
        let body = json!({ "tenant": "t-acme", "gitRepo": { "url": url, "type": "auto" } });
        let reply = rig.call("POST", "/clusters", &body.to_string()).await;
        assert_eq!(reply.status, status, "{url}");
    }
    let file = json!({ "tenant": "t-acme", "gitRepo": { "url": "/srv/x", "type": "unmanaged" } });
    assert_eq!(
        rig.call("POST", "/clusters", &file.to_string())
            .await
            .status,
        201
    );
}
