//! Bundles: generations, validation, plans, rollbacks, removal, visibility.

use fairlead_api::{Code, resources::Role};
use http::{Method, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    archives::uploaded,
    rig::{Reply, Rig, admin, caller},
    rights::world,
};

const PATH: &str = "/v1/bundles/b-shop";

/// A hub with a bundle's content, and the labels `site=edge` at `c-of-a` and `c-of-b`.
async fn shop() -> (Rig, Value) {
    let rig = Rig::new().await;
    world(&rig).await;
    for cluster in ["c-of-a", "c-of-b"] {
        label(&rig, cluster, "edge").await.good();
    }
    let artifact = uploaded(&rig, "t-a", &[("web.yaml", "a: ${vars.a:-1}\n")]).await;
    (rig, artifact)
}

async fn label(rig: &Rig, cluster: &str, value: &str) -> Reply {
    let body = json!({ "annotations": { "site": value } });
    let path = format!("/clusters/{cluster}");
    rig.call(&admin(), Method::PATCH, &path, body).await
}

fn document(artifact: &Value, selector: &str) -> Value {
    json!({ "tenant": "t-a", "artifact": artifact, "targets": [{ "selector": selector }] })
}

async fn put(rig: &Rig, query: &str, body: &Value) -> Reply {
    let path = format!("{PATH}{query}");
    rig.call(&admin(), Method::PUT, &path, body.clone()).await
}

#[tokio::test]
async fn a_change_of_content_or_options_makes_a_generation() {
    let (rig, artifact) = shop().await;
    let tried = put(&rig, "?dryRun=true", &document(&artifact, "site=edge")).await;
    assert_eq!(tried.status, StatusCode::CREATED);
    assert_eq!(rig.get(&admin(), PATH).await.code(), Code::NotFound);

    let created = put(&rig, "", &document(&artifact, "site=edge")).await;
    assert_eq!(created.status, StatusCode::CREATED);
    assert_eq!(created.headers[header::LOCATION], PATH);
    let shown = created.good();
    assert_eq!(
        (&shown["generation"], &shown["kind"]),
        (&json!(1), &json!("manifests"))
    );
    assert_eq!(shown["artifact"], artifact);
    let equal = put(&rig, "", &document(&artifact, "site=edge")).await;
    assert_eq!(
        (equal.status, &equal.json()["generation"]),
        (StatusCode::OK, &json!(1))
    );

    let mut other = document(&artifact, "site=edge");
    other["vars"] = json!({ "a": 2 });
    assert_eq!(put(&rig, "", &other).await.good()["generation"], 2);
    other["suspended"] = json!(true);
    let suspended = put(&rig, "", &other).await.good();
    assert_eq!(
        (&suspended["generation"], &suspended["suspended"]),
        (&json!(2), &json!(true))
    );
    other.as_object_mut().unwrap().remove("suspended");
    assert_eq!(
        put(&rig, "", &other).await.good()["suspended"],
        true,
        "as before"
    );
    other["artifact"] = uploaded(&rig, "t-a", &[("web.yaml", "a: 2\n")]).await;
    let third = put(&rig, "", &other).await.good();
    assert_eq!(third["generation"], 3);
    let generations = third["generations"].as_array().unwrap();
    let numbers: Vec<_> = generations.iter().map(|it| it["number"].as_u64()).collect();
    assert_eq!(numbers, [Some(3), Some(2), Some(1)]);
    assert_eq!(generations[0]["by"], "admin-of-all");

    let list = rig.get(&admin(), "/v1/bundles?text=shop").await.good();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert!(list["items"][0].get("generations").is_none());
}

#[tokio::test]
async fn a_bundle_changes_from_the_version_that_was_read() {
    let (rig, artifact) = shop().await;
    let body = document(&artifact, "site=edge");
    let created = put(&rig, "", &body).await;
    let tag = created.headers[header::ETAG].to_str().unwrap().to_owned();
    let known = (header::IF_MATCH, tag.as_str());
    let who = admin();
    for (path, status) in [
        (format!("{PATH}/suspend"), StatusCode::OK),
        (format!("{PATH}/resume"), StatusCode::PRECONDITION_FAILED),
    ] {
        let reply = rig.with_precondition(&who, Method::POST, &path, known.clone(), Value::Null);
        assert_eq!(reply.await.status, status, "{path}");
    }
    let late = rig.with_precondition(&who, Method::PUT, PATH, known.clone(), body);
    assert_eq!(late.await.code(), Code::ChangedMeanwhile);
    let late = rig.with_precondition(&who, Method::DELETE, PATH, known, Value::Null);
    assert_eq!(late.await.code(), Code::ChangedMeanwhile);
    let resumed = rig.post(&who, &format!("{PATH}/resume"), Value::Null).await;
    assert_eq!(resumed.good()["suspended"], false);
}

#[tokio::test]
async fn wrong_documents_are_rejected_with_all_their_errors() {
    let (rig, artifact) = shop().await;
    let with = |fields: Value| {
        let mut body = document(&artifact, "site=edge");
        body.as_object_mut()
            .unwrap()
            .extend(fields.as_object().cloned().unwrap());
        body
    };
    for (body, code, word) in [
        (json!([]), Code::Invalid, "object"),
        (json!({ "tenant": "t-a" }), Code::Invalid, "artifact"),
        (with(json!({ "colour": "red" })), Code::Invalid, "colour"),
        (
            with(json!({ "namespace": null })),
            Code::Invalid,
            "namespace",
        ),
        (
            with(json!({ "source": "s-none", "path": "x" })),
            Code::Invalid,
            "either",
        ),
        (
            with(json!({ "tenant": "t-none" })),
            Code::NotFound,
            "tenant",
        ),
        (
            with(json!({ "targets": [{ "groups": ["g-none"] }] })),
            Code::Invalid,
            "g-none",
        ),
        (
            with(json!({ "dependsOn": ["b-shop"] })),
            Code::BadBundle,
            "dependsOn[0]",
        ),
        (
            with(json!({ "kind": "helm" })),
            Code::BadBundle,
            "Chart.yaml",
        ),
        (
            with(json!({ "kind": "helm", "chart": { "oci": "oci://r/x", "version": "1" } })),
            Code::ChartNotFetched,
            "oci://r/x",
        ),
        (
            with(json!({ "namespace": "Shop", "retries": 1000, "targets": [{}] })),
            Code::BadBundle,
            "retries",
        ),
        (
            with(json!({ "namespace": "Shop", "retries": 1000, "targets": [{}] })),
            Code::BadBundle,
            "targets[0]",
        ),
    ] {
        let reply = put(&rig, "", &body).await;
        assert_eq!(reply.code(), code, "{body}: {}", reply.text);
        assert!(reply.text.contains(word), "{body}: {}", reply.text);
        let planned = rig
            .post(&admin(), &format!("{PATH}/plan"), body.clone())
            .await;
        assert_eq!(planned.code(), code, "{body}: {}", planned.text);
    }
    let body = document(&artifact, "a=b");
    let named = rig
        .call(&admin(), Method::PUT, "/v1/bundles/shop", body)
        .await;
    assert_eq!(named.code(), Code::Invalid);
    let confirm = put(&rig, "?confirm=yes", &document(&artifact, "a=b")).await;
    assert_eq!(confirm.code(), Code::Invalid);
}

#[tokio::test]
async fn circles_of_dependencies_are_rejected() {
    let (rig, artifact) = shop().await;
    let put = async |id: &str, depends_on: &str| {
        let body = json!({ "tenant": "t-a", "artifact": artifact, "dependsOn": [depends_on] });
        let path = format!("/v1/bundles/{id}");
        rig.call(&admin(), Method::PUT, &path, body).await
    };
    put("b-1", "b-2").await.good();
    put("b-2", "b-3").await.good();
    let refused = put("b-3", "b-1").await;
    assert_eq!(refused.code(), Code::DependencyCycle);
    assert!(
        refused.text.contains("b-1 -> b-2 -> b-3 -> b-1"),
        "{}",
        refused.text
    );
}

#[tokio::test]
async fn a_chart_in_the_folder_makes_a_release() {
    let (rig, _) = shop().await;
    let chart = uploaded(&rig, "t-a", &[("Chart.yaml", "name: x\n")]).await;
    let shown = put(&rig, "", &document(&chart, "site=edge")).await.good();
    assert_eq!(shown["kind"], "helm");
}

#[tokio::test]
async fn a_plan_shows_clusters_of_the_tenant_before_and_after() {
    let (rig, artifact) = shop().await;
    let plan = async |body: Value| {
        let path = format!("{PATH}/plan");
        rig.post(&admin(), &path, body).await.good()
    };
    let new = plan(document(&artifact, "site=edge")).await;
    assert_eq!(
        new["added"],
        json!(["c-of-a"]),
        "c-of-b is of another tenant"
    );
    assert!(new.get("confirm").is_none());
    put(&rig, "", &document(&artifact, "site=edge"))
        .await
        .good();
    let current = plan(Value::Null).await;
    assert_eq!(
        (&current["unchanged"], &current["targets"][0]["clusters"]),
        (&json!(1), &json!(1))
    );

    let mut changed = document(&artifact, "site=edge");
    changed["vars"] = json!({ "a": 2 });
    assert_eq!(plan(changed.clone()).await["changed"], json!(["c-of-a"]));
    changed["patches"] =
        json!([{ "target": { "kind": "Service" }, "merge": { "b": "${vars.missing}" } }]);
    let blocked = plan(changed).await;
    assert_eq!(blocked["blocked"][0]["cluster"], "c-of-a");
    assert!(
        blocked["blocked"][0]["reasons"][0]
            .as_str()
            .unwrap()
            .contains("vars.missing")
    );

    let away = document(&artifact, "site=core");
    let planned = plan(away.clone()).await;
    assert_eq!(planned["removed"], json!(["c-of-a"]));
    let confirm = planned["confirm"].as_str().unwrap().to_owned();
    let refused = put(&rig, "", &away).await;
    assert_eq!(refused.code(), Code::RemovalNotConfirmed);
    let details = &refused.json()["details"];
    assert_eq!(details["confirm"], confirm.as_str());
    assert_eq!(
        details["removed"],
        json!([{ "bundle": "b-shop", "cluster": "c-of-a", "deletes": false }])
    );
    let other = format!("?confirm=sha256:{}", "0".repeat(64));
    assert_eq!(
        put(&rig, &other, &away).await.code(),
        Code::RemovalNotConfirmed
    );
    put(&rig, &format!("?confirm={confirm}"), &away)
        .await
        .good();
    assert_eq!(
        put(&rig, "", &away).await.status,
        StatusCode::OK,
        "nothing is lost again"
    );
}

#[tokio::test]
async fn a_rollback_is_a_higher_generation_with_older_content() {
    let (rig, artifact) = shop().await;
    let path = format!("{PATH}/rollback");
    let roll_back =
        async |query: &str, body: Value| rig.post(&admin(), &format!("{path}{query}"), body).await;
    let mut body = document(&artifact, "site=edge");
    put(&rig, "", &body).await.good();
    assert_eq!(
        roll_back("", Value::Null).await.code(),
        Code::NoSuchGeneration
    );
    body["vars"] = json!({ "a": 2 });
    put(&rig, "", &body).await.good();
    let third = roll_back("", Value::Null).await.good();
    assert_eq!(third["generation"], 3);
    assert!(third.get("vars").is_none(), "{third}");
    let fourth = roll_back("", json!({ "to": 2 })).await.good();
    assert_eq!(
        (&fourth["generation"], &fourth["vars"]["a"]),
        (&json!(4), &json!(2))
    );
    for to in [4, 9] {
        let refused = roll_back("", json!({ "to": to })).await;
        assert_eq!(refused.code(), Code::NoSuchGeneration, "{to}");
    }
    for bad in [json!({ "to": -1 }), json!({ "too": 1 }), json!([1])] {
        assert_eq!(
            roll_back("", bad.clone()).await.code(),
            Code::Invalid,
            "{bad}"
        );
    }
    // The targets roll back, too.
    body["targets"] = json!([]);
    let confirm = confirm_of(&put(&rig, "", &body).await);
    put(&rig, &format!("?confirm={confirm}"), &body)
        .await
        .good();
    roll_back("", Value::Null).await.good();
    let lost = roll_back("?dryRun=true", json!({ "to": 5 })).await;
    assert_eq!(lost.code(), Code::RemovalNotConfirmed);
}

fn confirm_of(refused: &Reply) -> String {
    assert_eq!(
        refused.code(),
        Code::RemovalNotConfirmed,
        "{}",
        refused.text
    );
    let body = refused.json();
    body["details"]["confirm"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_deleted_bundle_keeps_its_objects_and_its_numbers() {
    let (rig, artifact) = shop().await;
    let body = document(&artifact, "site=edge");
    put(&rig, "", &body).await.good();
    let confirm = confirm_of(&rig.delete(&admin(), PATH).await);
    let gone = rig
        .delete(&admin(), &format!("{PATH}?confirm={confirm}"))
        .await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    assert_eq!(rig.get(&admin(), PATH).await.code(), Code::NotFound);
    assert_eq!(rig.delete(&admin(), PATH).await.code(), Code::NotFound);
    assert_eq!(put(&rig, "", &body).await.good()["generation"], 2);
}

#[tokio::test]
async fn a_removed_bundle_waits_for_its_clusters() {
    let (rig, artifact) = shop().await;
    let body = document(&artifact, "site=edge");
    put(&rig, "", &body).await.good();
    let remove = format!("{PATH}?mode=remove");
    let refused = rig.delete(&admin(), &remove).await;
    assert_eq!(refused.json()["details"]["removed"][0]["deletes"], true);
    let confirm = confirm_of(&refused);
    let keep = confirm_of(&rig.delete(&admin(), PATH).await);
    assert_ne!(confirm, keep, "one confirmation is not the other");
    let accepted = rig
        .delete(&admin(), &format!("{remove}&confirm={confirm}"))
        .await;
    assert_eq!(accepted.status, StatusCode::ACCEPTED);
    let shown = rig.get(&admin(), PATH).await.good();
    assert_eq!(
        (&shown["deleting"], &shown["removals"]),
        (&json!(true), &json!({ "c-of-a": 1 }))
    );
    assert_eq!(put(&rig, "", &body).await.code(), Code::BundleDeleting);
    let path = format!("{PATH}/suspend");
    assert_eq!(
        rig.post(&admin(), &path, Value::Null).await.code(),
        Code::BundleDeleting
    );
    // A repetition changes nothing, and keeping the objects ends the wait.
    assert_eq!(
        rig.delete(&admin(), &remove).await.status,
        StatusCode::ACCEPTED
    );
    assert_eq!(
        rig.delete(&admin(), PATH).await.status,
        StatusCode::NO_CONTENT
    );
    let odd = rig.delete(&admin(), &format!("{PATH}?mode=forget")).await;
    assert_eq!(odd.code(), Code::Invalid);
}

#[tokio::test]
async fn bundles_of_other_tenants_look_absent() {
    let (rig, artifact) = shop().await;
    put(&rig, "", &document(&artifact, "site=edge"))
        .await
        .good();
    let stranger = caller(Role::Admin, Some("t-b"));
    let own = json!({ "tenant": "t-b", "artifact": artifact });
    for (method, path, body) in [
        (Method::GET, "", Value::Null),
        (Method::DELETE, "", Value::Null),
        (Method::POST, "/plan", Value::Null),
        (Method::POST, "/rollback", Value::Null),
        (Method::POST, "/suspend", Value::Null),
        (Method::POST, "/resume", Value::Null),
        (Method::PUT, "", own),
    ] {
        let ask = async |id: &str| {
            let path = format!("/v1/bundles/{id}{path}");
            let reply = rig
                .call(&stranger, method.clone(), &path, body.clone())
                .await;
            reply.text.replace(id, "b-x")
        };
        let (hidden, missing) = (ask("b-shop").await, ask("b-none").await);
        assert!(hidden.contains("FL-"), "{method} {path}: {hidden}");
        assert_eq!(hidden, missing, "{method} {path}");
    }
    let list = rig.get(&stranger, "/v1/bundles").await.good();
    assert_eq!(list["items"], json!([]));
    let viewer = caller(Role::Viewer, Some("t-a"));
    rig.get(&viewer, PATH).await.good();
    let moved = json!({ "tenant": "t-b", "artifact": artifact });
    let of_a = caller(Role::Tenant, Some("t-a"));
    let refused = rig.call(&of_a, Method::PUT, PATH, moved).await;
    assert_eq!(refused.code(), Code::NotFound);
}

#[tokio::test]
async fn changes_show_author_differences_and_visibility() {
    let (rig, artifact) = shop().await;
    let start = rig.get(&admin(), "/v1/changes").await.good()["revision"].clone();
    let mut body = document(&artifact, "site=edge");
    let of_a = caller(Role::Tenant, Some("t-a"));
    for replicas in [1, 2] {
        body["vars"] = json!({ "a": replicas });
        rig.call(&of_a, Method::PUT, PATH, body.clone())
            .await
            .good();
    }
    let group = json!({ "tenant": "t-a", "selector": "site=core" });
    rig.call(&of_a, Method::PUT, "/v1/groups/g-a", group)
        .await
        .good();
    let path = format!("/v1/changes?since={start}");
    let seen = async |who| rig.get(who, &path).await.good()["items"].clone();
    let lines = seen(&of_a).await;
    let lines = lines.as_array().unwrap();
    let of_bundle: Vec<_> = lines.iter().filter(|it| it["kind"] == "bundle").collect();
    assert_eq!(of_bundle.len(), 2, "{lines:?}");
    assert_eq!(of_bundle[1]["actor"], "tenant-of-t-a");
    let audit = rig.get(&admin(), "/v1/audit").await.good().to_string();
    assert!(
        audit.contains("b-shop") && audit.contains("vars"),
        "{audit}"
    );
    assert!(lines.iter().any(|it| it["kind"] == "group"), "{lines:?}");
    let stranger = caller(Role::Admin, Some("t-b"));
    assert_eq!(seen(&stranger).await, json!([]));
}

#[tokio::test]
async fn a_bundle_of_a_source_has_no_generation_before_the_first_commit() {
    let (rig, _) = shop().await;
    let body = |path: &str| json!({ "tenant": "t-a", "source": "s-a", "path": path });
    let created = put(&rig, "", &body("a")).await;
    assert_eq!(created.status, StatusCode::CREATED);
    let shown = created.good();
    assert_eq!(
        (&shown["generation"], &shown["path"]),
        (&json!(0), &json!("a"))
    );
    assert!(shown.get("artifact").is_none());
    let path = format!("{PATH}/plan");
    let plan = rig.post(&admin(), &path, Value::Null).await;
    assert_eq!(plan.good()["unchanged"], 0);
    let other = put(&rig, "", &body("b")).await;
    assert_eq!(other.code(), Code::Invalid);
    let mut foreign = body("a");
    foreign["tenant"] = json!("t-b");
    let path = "/v1/bundles/b-foreign";
    let refused = rig.call(&admin(), Method::PUT, path, foreign).await;
    assert_eq!(refused.code(), Code::Invalid, "the source serves t-a only");
}
