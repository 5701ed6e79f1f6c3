//! Sources over the routes of people and of Git servers.

use fairlead_api::{Code, resources::Role};
use http::{Method, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    rig::{Rig, admin, caller},
    rights::world,
};

const ONE: &str = "/v1/sources/s-a";

#[tokio::test]
async fn a_source_is_written_listed_and_deleted() {
    let rig = Rig::new().await;
    world(&rig).await;
    let git = json!({ "url": "git@git.example:a", "ref": "semver:1.x", "paths": ["./apps//shop/"], "hostKeys": "git.example ssh-ed25519 AAAA" });
    let body = json!({ "tenant": "t-a", "git": git, "prune": true });
    let put = rig
        .call(&admin(), Method::PUT, "/v1/sources/s-b", body)
        .await;
    assert_eq!(put.status, StatusCode::CREATED);
    assert_eq!(put.good()["git"]["paths"], json!(["apps/shop"]));
    let who = caller(Role::Viewer, Some("t-a"));
    let listed = rig.get(&who, "/v1/sources").await.good();
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    let stranger = caller(Role::Admin, Some("t-b"));
    assert_eq!(
        rig.get(&stranger, "/v1/sources").await.good()["items"],
        json!([])
    );
    assert_eq!(rig.get(&stranger, ONE).await.code(), Code::NotFound);
    assert_eq!(rig.delete(&stranger, ONE).await.code(), Code::NotFound);
    let gone = rig.delete(&admin(), "/v1/sources/s-b").await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn invalid_sources_are_rejected() {
    let rig = Rig::new().await;
    world(&rig).await;
    for (field, value) in [
        ("url", json!("https://token@git.example/a")),
        ("url", json!("file:///etc")),
        ("url", json!("git@git.example:a")),
        ("ref", json!("--upload-pack=x")),
        ("paths", json!(["../x"])),
        ("paths", json!([])),
        ("credentials", json!({ "name": "../x" })),
        ("verify", json!("")),
    ] {
        let mut git = json!({ "url": "https://git.example/a", "ref": "main", "paths": ["a"] });
        git[field] = value;
        let body = json!({ "tenant": "t-a", "git": git });
        let reply = rig.call(&admin(), Method::PUT, ONE, body).await;
        assert_eq!(reply.code(), Code::Invalid, "{field}: {}", reply.text);
    }
}

#[tokio::test]
async fn a_suspended_source_is_not_polled() {
    let rig = Rig::new().await;
    world(&rig).await;
    let sync = format!("{ONE}/sync");
    let accepted = rig.post(&admin(), &sync, Value::Null).await;
    assert_eq!(accepted.status, StatusCode::ACCEPTED);
    let git = json!({ "url": "https://git.example/a", "ref": "main", "paths": ["a"] });
    let body = json!({ "tenant": "t-a", "git": git, "suspended": true });
    rig.call(&admin(), Method::PUT, ONE, body).await.good();
    let refused = rig.post(&admin(), &sync, Value::Null).await;
    assert_eq!(refused.code(), Code::SourceSuspended);
    assert!(!refused.headers.contains_key(header::LOCATION));
}

#[tokio::test]
async fn webhooks_need_the_secret_of_their_source() {
    let rig = Rig::with(|config| {
        config.delivery_credentials = Some(config.data_dir.with_file_name("credentials"));
    });
    let rig = rig.await;
    world(&rig).await;
    let folder = rig.dir.path().join("credentials/t-a");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("s-a.webhook"), "s3cret\n").unwrap();
    let mut replies = Vec::new();
    for (source, token) in [
        ("s-a", "s3cret"),
        ("s-a", "wrong"),
        ("s-none", "s3cret"),
        ("S", "s3cret"),
    ] {
        let path = format!("/hooks/v1/sources/{source}");
        replies.push(rig.hook(&path, ("x-gitlab-token", token), "{}").await);
    }
    assert_eq!(replies[0].status, StatusCode::ACCEPTED);
    for reply in &replies[1..] {
        assert_eq!(reply.code(), Code::HookRefused);
        assert_eq!(reply.text, replies[1].text);
    }
    // A push of many commits.
    let call = async |bytes: usize| {
        let token = ("x-gitlab-token", "s3cret");
        rig.hook("/hooks/v1/sources/s-a", token, vec![b'x'; bytes])
            .await
    };
    assert_eq!(call(1024 * 1024).await.status, StatusCode::ACCEPTED);
    assert_eq!(call(1024 * 1024 + 1).await.code(), Code::BadRequest);
}
