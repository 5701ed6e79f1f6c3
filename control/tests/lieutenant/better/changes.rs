//! Creating, changing and deleting.

use fairlead_api::resources::Role;
use serde_json::json;

use crate::rig::Rig;

const KEY: &str = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAACAQ==";

#[tokio::test]
async fn null_removes_a_field_a_fact_and_an_annotation() {
    let rig = Rig::new().await;
    rig.demo().await;
    let fill = json!({
        "annotations": { "a": "1", "b": "2" }, "dynamicFacts": { "x": 1, "y": 2 },
        "gitRepo": { "deployKey": KEY, "hostKeys": "h" }, "tenantGitRepoRevision": "v1",
        "compileMeta": { "packages": { "p": { "version": "1" } } },
    });
    rig.patch("/clusters/c-demo", &fill).await.good();
    let empty = json!({
        "displayName": null, "annotations": { "a": null }, "facts": { "cloud": null },
        "dynamicFacts": { "x": null }, "gitRepo": { "deployKey": null, "hostKeys": null },
        "tenantGitRepoRevision": null, "compileMeta": null,
    });
    let after = rig.patch("/clusters/c-demo", &empty).await.good();
    assert_eq!(after["displayName"], "c-demo");
    assert_eq!(after["annotations"], json!({ "b": "2" }));
    assert_eq!(after["facts"], json!({ "distribution": "openshift4" }));
    assert_eq!(after["dynamicFacts"], json!({ "y": 2 }));
    assert!(after["gitRepo"].get("deployKey").is_none(), "{after}");
    assert!(after["gitRepo"].get("hostKeys").is_none());
    assert!(after.get("tenantGitRepoRevision").is_none());
    assert_eq!(after["compileMeta"], json!({}));
    let whole = json!({ "annotations": null, "facts": null });
    let after = rig.patch("/clusters/c-demo", &whole).await.good();
    assert_eq!(
        (&after["annotations"], &after["facts"]),
        (&json!({}), &json!({}))
    );
}

#[tokio::test]
async fn a_value_that_is_no_string_is_refused_with_the_name_of_its_key() {
    let rig = Rig::new().await;
    rig.demo().await;
    for (field, key) in [("facts", "cloud"), ("annotations", "a.example/b")] {
        for value in [json!(1), json!(true), json!({}), json!([])] {
            let body = json!({ field: { key: value } });
            rig.patch("/clusters/c-demo", &body).await.is(400, key);
            let body = json!({ "tenant": "t-acme", field: { key: value } });
            rig.call("POST", "/clusters", &body.to_string())
                .await
                .is(400, key);
        }
    }
}

#[tokio::test]
async fn a_409_has_written_nothing() {
    let rig = Rig::new().await;
    rig.demo().await;
    let before = [
        rig.get("/clusters").await.text,
        rig.get("/tenants").await.text,
    ];
    let cluster =
        json!({ "id": "demo", "tenant": "t-acme", "displayName": "x", "facts": { "cloud": "x" } });
    let tenant = json!({ "id": "acme", "displayName": "x", "gitRepo": { "url": "ssh://g@e/a/b" } });
    for (method, path, body) in [
        ("POST", "/clusters", cluster.to_string()),
        ("POST", "/tenants", tenant.to_string()),
        ("DELETE", "/tenants/t-acme", String::new()),
    ] {
        assert_eq!(rig.call(method, path, &body).await.status, 409, "{path}");
    }
    let after = [
        rig.get("/clusters").await.text,
        rig.get("/tenants").await.text,
    ];
    assert_eq!(before, after);
}

#[tokio::test]
async fn concurrent_changes_of_a_cluster_are_not_refused() {
    let rig = Rig::new().await;
    rig.demo().await;
    let compiler = rig.token(Role::Compile, None, None).await;
    let steward = rig.token(Role::Cluster, None, Some("c-demo")).await;
    let rounds = (0..10).map(async |n| {
        let fact = format!("n{n}");
        let person = json!({ "annotations": { fact.as_str(): "x" } });
        let report = json!({ "dynamicFacts": { fact.as_str(): n } }).to_string();
        let meta = json!({ "packages": { fact.as_str(): { "version": "1" } } }).to_string();
        let path = "/clusters/c-demo/compileMeta";
        tokio::join!(
            rig.patch("/clusters/c-demo", &person),
            rig.as_who(&steward, "PATCH", "/clusters/c-demo", &report),
            rig.as_who(&compiler, "POST", path, &meta),
        )
    });
    for (person, steward, compiler) in futures_util::future::join_all(rounds).await {
        let statuses = [person.status, steward.status, compiler.status];
        assert_eq!(statuses, [200, 200, 204]);
    }
    let shown = rig.get("/clusters/c-demo").await.good();
    for field in ["annotations", "dynamicFacts"] {
        assert_eq!(shown[field].as_object().unwrap().len(), 10, "{field}");
    }
}

#[tokio::test]
async fn an_install_url_in_a_body_is_ignored() {
    let rig = Rig::new().await;
    rig.demo().await;
    let body = json!({ "tenant": "t-acme", "installURL": "https://evil.example" }).to_string();
    let put = rig.call("PUT", "/clusters/c-demo", &body).await;
    assert!(
        put.good()["installURL"]
            .as_str()
            .unwrap()
            .starts_with("https://hub.example/")
    );
    let patch = rig
        .patch("/clusters/c-demo", &json!({ "installURL": "x" }))
        .await;
    assert_eq!(patch.status, 200);
}

#[tokio::test]
async fn a_managed_repository_keeps_its_url() {
    let rig = Rig::new().await;
    rig.demo().await;
    let url = "ssh://git@git.example/group/name.git";
    let body =
        json!({ "id": "auto", "tenant": "t-acme", "gitRepo": { "url": url, "type": "auto" } });
    let made = rig
        .call("POST", "/clusters", &body.to_string())
        .await
        .good();
    assert_eq!(made["gitRepo"]["url"], url);
    rig.patch(
        "/clusters/c-auto",
        &json!({ "gitRepo": { "deployKey": KEY } }),
    )
    .await
    .good();
    let shown = rig.get("/clusters/c-auto").await.good();
    assert_eq!(
        (&shown["gitRepo"]["url"], &shown["gitRepo"]["type"]),
        (&json!(url), &json!("auto"))
    );
}

#[tokio::test]
async fn an_unknown_tenant_is_refused() {
    let rig = Rig::new().await;
    for (method, path) in [("POST", "/clusters"), ("PUT", "/clusters/c-x")] {
        let reply = rig.call(method, path, r#"{"tenant":"t-none"}"#).await;
        reply.is(404, "tenant");
    }
    assert_eq!(rig.get("/clusters").await.good(), json!([]));
}

#[tokio::test]
async fn a_tenant_with_clusters_is_deleted_only_with_cascade() {
    let rig = Rig::new().await;
    rig.demo().await;
    let child = r#"{"id":"child","tenantRef":"t-acme","gitRepo":{"url":"ssh://g@e/a/b"}}"#;
    rig.call("POST", "/tenants", child).await.good();
    rig.call("POST", "/clusters", r#"{"id":"below","tenant":"t-child"}"#)
        .await
        .good();
    assert_eq!(rig.call("DELETE", "/tenants/t-acme", "").await.status, 409);
    assert_eq!(
        rig.get("/clusters").await.good().as_array().unwrap().len(),
        2
    );
    rig.patch("/clusters/c-below", &json!({ "deleteProtection": true }))
        .await
        .good();
    let protected = rig.call("DELETE", "/tenants/t-acme?cascade=true", "").await;
    assert_eq!(protected.status, 409, "one that is protected protects all");
    assert_eq!(
        rig.call("DELETE", "/clusters/c-below", "").await.status,
        409
    );
    rig.patch("/clusters/c-below", &json!({ "deleteProtection": null }))
        .await
        .good();
    assert_eq!(
        rig.call("DELETE", "/tenants/t-acme?cascade=true", "")
            .await
            .status,
        204
    );
    assert_eq!(rig.get("/clusters").await.good(), json!([]));
    assert_eq!(rig.get("/tenants/t-child").await.status, 404);
}
