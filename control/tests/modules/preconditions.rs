//! Preconditions of changes (`If-Match`, `If-None-Match`): honoured wherever a version exists,
//! without revealing hidden resources.

use std::sync::Arc;

use fairlead_api::{Code, resources::Role};
use http::{Method, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    rig::{Rig, admin, caller},
    rights::{TABLE, body, world},
};

#[tokio::test]
async fn preconditions_do_not_reveal_hidden_resources() {
    let rig = Rig::new().await;
    world(&rig).await;
    let demands = [
        (header::IF_NONE_MATCH, "*"),
        (header::IF_MATCH, "*"),
        (header::IF_MATCH, "\"1\""),
        (header::IF_MATCH, "\"9\""),
        (header::IF_MATCH, "nonsense"),
    ];
    let named = r#"{"displayName":"x"}"#;
    let repo = r#"{"gitRepo":{"type":"unmanaged"}}"#;
    let of_a = r#"{"tenant":"t-a"}"#;
    for role in [Role::Admin, Role::Operator, Role::Viewer, Role::Tenant] {
        let who = caller(role, Some("t-a"));
        for demand in demands.clone() {
            for (method, path, text) in [
                ("PUT", "/tenants/t-b", repo),
                ("PUT", "/tenants/t-b?dryRun=true", repo),
                ("PATCH", "/tenants/t-b", named),
                ("DELETE", "/tenants/t-b", ""),
                ("PUT", "/clusters/c-of-b", of_a),
                ("PUT", "/clusters/c-of-b?dryRun=true", of_a),
                ("PUT", "/clusters/c-of-b", r#"{"tenant":"t-b"}"#),
                ("PATCH", "/clusters/c-of-b", named),
                ("DELETE", "/clusters/c-of-b", ""),
                ("POST", "/clusters/c-of-b/compileMeta", "{}"),
                ("POST", "/v1/clusters/c-of-b/tenant", of_a),
                ("PUT", "/v1/clusters/c-of-b/agent", "{}"),
                (
                    "PUT",
                    "/v1/clusters/c-of-b/catalog",
                    r#"{"version":0,"objects":[]}"#,
                ),
            ] {
                // A taken id cannot be hidden from a request to create it.
                let makes = text == of_a && method == "PUT" && demand.1 == "*";
                if makes && demand.0 == header::IF_NONE_MATCH {
                    continue;
                }
                let ask = async |path: &str| {
                    let method = method.parse().unwrap();
                    let demand = demand.clone();
                    rig.with_precondition(&who, method, path, demand, body(text))
                        .await
                };
                let hidden = ask(path).await;
                let none = path.replace("c-of-b", "c-none").replace("t-b", "t-none");
                let missing = ask(&none).await;
                assert_eq!(
                    (hidden.status, &hidden.text),
                    (missing.status, &missing.text),
                    "{role}: {method} {path} {demand:?}"
                );
                assert!(!hidden.status.is_success(), "{role}: {method} {path}");
            }
        }
    }
}

#[tokio::test]
async fn a_hidden_id_is_taken_and_reveals_nothing_else() {
    let rig = Rig::new().await;
    world(&rig).await;
    let who = caller(Role::Tenant, Some("t-a"));
    let new = (header::IF_NONE_MATCH, "*");
    let body = json!({ "tenant": "t-a" });
    let path = "/clusters/c-of-b";
    let plain = rig.call(&who, Method::PUT, path, body.clone()).await;
    let with_precondition = rig
        .with_precondition(&who, Method::PUT, path, new, body)
        .await;
    assert_eq!(plain.code(), Code::Conflict);
    assert_eq!(plain.text, with_precondition.text);
}

/// A route's path as written in the OpenAPI document.
fn described(path: &str) -> String {
    let path = path.split('?').next().unwrap();
    let path = path
        .replace("c-of-a", "{clusterId}")
        .replace("g-a", "{groupId}")
        .replace("/b-a", "/{bundleId}")
        .replace("/s-a", "/{sourceId}")
        .replace("t-a", "{tenantId}");
    path.replace("k-none", "{tokenId}")
        .replace("services/x", "services/{serviceName}")
        .replace("facts/x", "facts/{name}")
}

#[tokio::test]
async fn the_document_describes_412_exactly_where_it_occurs() {
    let rig = Rig::new().await;
    let document = rig.open("/openapi.json").await.good();
    let changing = |it: &&(&str, &str, &str, &str)| it.0 != "GET";
    for (method, path, text, _) in TABLE.iter().filter(changing) {
        world(&rig).await;
        let operation = &document["paths"][described(path)][method.to_lowercase()];
        let told = operation["responses"].get("412").is_some();
        let none = (header::IF_MATCH, "\"7777\"");
        let method: Method = method.parse().unwrap();
        let reply = rig
            .with_precondition(&admin(), method.clone(), path, none, body(text))
            .await;
        let lost = reply.status == StatusCode::PRECONDITION_FAILED;
        assert_eq!(lost, told, "{method} {path}");
    }
}

#[tokio::test]
async fn changes_require_the_version_that_was_read() {
    let rig = Rig::new().await;
    world(&rig).await;
    for (method, path, text, read) in [
        (
            "POST",
            "/clusters/c-of-a/compileMeta",
            "{}",
            "/clusters/c-of-a",
        ),
        (
            "PUT",
            "/v1/clusters/c-of-a/catalog",
            r#"{"version":0,"objects":[]}"#,
            "/v1/clusters/c-of-a/catalog",
        ),
        (
            "POST",
            "/v1/clusters/c-of-a/tenant",
            r#"{"tenant":"t-b"}"#,
            "/clusters/c-of-a",
        ),
    ] {
        let tag = rig.get(&admin(), read).await.headers[header::ETAG].clone();
        let demand = (header::IF_MATCH, tag.to_str().unwrap());
        let method: Method = method.parse().unwrap();
        let change = async || {
            let (method, demand) = (method.clone(), demand.clone());
            rig.with_precondition(&admin(), method, path, demand, body(text))
                .await
        };
        change().await.good();
        let again = change().await;
        assert_eq!(again.code(), Code::ChangedMeanwhile, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_hundred_changes_of_one_version_exactly_one_wins() {
    let rig = Arc::new(Rig::new().await);
    world(&rig).await;
    let path = "/clusters/c-of-a";
    let tag = rig.get(&admin(), path).await.headers[header::ETAG].clone();
    let racers = (0..200).map(|n| {
        let (rig, tag) = (Arc::clone(&rig), tag.clone());
        tokio::spawn(async move {
            let demand = (header::IF_MATCH, tag.to_str().unwrap());
            let body = json!({ "displayName": format!("racer {n}") });
            rig.with_precondition(&admin(), Method::PATCH, path, demand, body)
                .await
        })
    });
    let racers: Vec<_> = racers.collect();
    let mut winners = Vec::new();
    for racer in racers {
        let reply = racer.await.unwrap();
        if reply.status.is_success() {
            winners.push(reply.good()["displayName"].clone());
        } else {
            assert_eq!(reply.code(), Code::ChangedMeanwhile);
        }
    }
    let shown = rig.get(&admin(), path).await.good()["displayName"].clone();
    assert_eq!(winners, [shown]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_hundred_creations_of_one_id_exactly_one_wins() {
    let rig = Arc::new(Rig::new().await);
    let repo = json!({ "type": "unmanaged" });
    for (path, body) in [
        ("/clusters", json!({ "id": "new", "tenant": "t-default" })),
        ("/tenants", json!({ "id": "new", "gitRepo": repo })),
    ] {
        let racers = (0..200).map(|n| {
            let (rig, mut body) = (Arc::clone(&rig), body.clone());
            body["displayName"] = Value::from(format!("racer {n}"));
            tokio::spawn(async move { rig.post(&admin(), path, body).await })
        });
        let racers: Vec<_> = racers.collect();
        let mut winners = Vec::new();
        for racer in racers {
            let reply = racer.await.unwrap();
            if reply.status == StatusCode::CREATED {
                winners.push(reply.good());
            } else {
                assert_eq!(reply.code(), Code::Conflict);
            }
        }
        let [winner] = winners.as_slice() else {
            panic!("{path}: {winners:?}");
        };
        let id = winner["id"].as_str().unwrap();
        let shown = rig.get(&admin(), &format!("{path}/{id}")).await.good();
        assert_eq!(shown["displayName"], winner["displayName"]);
    }
}
