//! Dry runs, and content that no document may contain.

use fairlead_api::{Code, resources::Role};
use http::{Method, StatusCode, header};
use serde_json::{Value, json};

use crate::rig::{Rig, admin, caller};

async fn revision(rig: &Rig) -> Value {
    rig.get(&admin(), "/v1/changes").await.good()["revision"].clone()
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn a_dry_run_answers_like_the_change_and_has_no_effect() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    rig.cluster("demo", "acme").await;
    let before = revision(&rig).await;
    let cluster =
        json!({ "tenant": "t-acme", "facts": { "cloud": "x" }, "deletionPolicy": "Retain" });
    let tenant = json!({ "gitRepo": { "type": "unmanaged" }, "displayName": "Other" });
    for (method, path, body, status, pointer) in [
        (
            Method::PUT,
            "/clusters/c-new",
            &cluster,
            StatusCode::CREATED,
            "/deletionPolicy",
        ),
        (
            Method::PUT,
            "/clusters/c-demo",
            &cluster,
            StatusCode::OK,
            "/facts/cloud",
        ),
        (
            Method::PATCH,
            "/clusters/c-demo",
            &json!({ "displayName": "D" }),
            StatusCode::OK,
            "/displayName",
        ),
        (
            Method::PUT,
            "/tenants/t-new",
            &tenant,
            StatusCode::CREATED,
            "/displayName",
        ),
        (
            Method::PUT,
            "/tenants/t-acme",
            &tenant,
            StatusCode::OK,
            "/displayName",
        ),
        (
            Method::PATCH,
            "/tenants/t-acme",
            &json!({ "displayName": "D" }),
            StatusCode::OK,
            "/displayName",
        ),
    ] {
        let tried = rig
            .call(
                &admin(),
                method.clone(),
                &format!("{path}?dryRun=true"),
                body.clone(),
            )
            .await;
        assert_eq!(tried.status, status, "{method} {path}");
        let would = tried.good();
        assert_eq!(
            would.pointer(pointer),
            body.pointer(pointer),
            "{method} {path}"
        );
        // No secret that would admit an agent.
        assert!(
            would.get("installURL").is_none() && would.get("join").is_none(),
            "{would}"
        );
    }
    let refused = [
        (
            admin(),
            "/clusters/c-x?dryRun=true",
            json!({ "tenant": "t-none" }),
            Code::NotFound,
        ),
        (
            admin(),
            "/clusters/c-demo?dryRun=yes",
            cluster.clone(),
            Code::Invalid,
        ),
        (
            caller(Role::Viewer, None),
            "/clusters/c-demo?dryRun=true",
            cluster.clone(),
            Code::NotAllowed,
        ),
    ];
    for (who, path, body, code) in refused {
        assert_eq!(
            rig.call(&who, Method::PUT, path, body).await.code(),
            code,
            "{path}"
        );
    }
    let old = (header::IF_MATCH, "\"99-aa\"");
    let path = "/clusters/c-demo?dryRun=true";
    let stale = rig
        .with_precondition(
            &admin(),
            Method::PATCH,
            path,
            old,
            json!({ "displayName": "D" }),
        )
        .await;
    assert_eq!(stale.code(), Code::ChangedMeanwhile);
    assert_eq!(revision(&rig).await, before);
}

#[tokio::test]
async fn credentials_in_repository_urls_are_rejected() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    rig.cluster("demo", "acme").await;
    let secret = "https://robot:s3cret@git.example/a/b.git";
    let of_cluster = json!({ "tenant": "t-acme", "gitRepo": { "url": secret } });
    let only_repo = json!({ "gitRepo": { "url": secret } });
    let template = json!({ "clusterTemplate": { "gitRepo": { "url": secret } } });
    let global = json!({ "globalGitRepoURL": secret, "gitRepo": { "type": "unmanaged" } });
    for (method, path, body, field) in [
        (Method::POST, "/clusters", &of_cluster, "gitRepo.url"),
        (Method::PUT, "/clusters/c-demo", &of_cluster, "gitRepo.url"),
        (Method::PATCH, "/clusters/c-demo", &only_repo, "gitRepo.url"),
        (Method::POST, "/tenants", &only_repo, "gitRepo.url"),
        (Method::PUT, "/tenants/t-acme", &global, "globalGitRepoURL"),
        (
            Method::PATCH,
            "/tenants/t-acme",
            &template,
            "clusterTemplate.gitRepo.url",
        ),
    ] {
        let reply = rig.call(&admin(), method.clone(), path, body.clone()).await;
        assert_eq!(reply.code(), Code::Invalid, "{method} {path}");
        let told = reply.json()["reason"].to_string();
        assert!(told.contains(field) && !told.contains("s3cret"), "{told}");
    }
    // The user name in an SSH URL is no secret.
    let plain = json!({ "gitRepo": { "url": "ssh://git@git.example/a/b.git" } });
    rig.call(&admin(), Method::PATCH, "/clusters/c-demo", plain)
        .await
        .good();
    let audit = rig.get(&admin(), "/v1/audit").await;
    assert!(!audit.text.contains("s3cret"));
}

#[tokio::test]
async fn since_first_returns_the_whole_retained_log() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    let all = rig.get(&admin(), "/v1/changes?since=first").await.good();
    let made = all["items"].as_array().unwrap().iter();
    let ids: Vec<&str> = made.map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["t-acme"]);
    let wrong = rig.get(&admin(), "/v1/changes?since=last").await;
    assert_eq!(wrong.code(), Code::Invalid);
}
