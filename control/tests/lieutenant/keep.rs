//! What clients rely on.

use fairlead_api::resources::Role;
use serde_json::{Value, json};

use crate::rig::Rig;

#[tokio::test]
async fn a_request_is_judged_before_its_sender_is() {
    let rig = Rig::new().await;
    rig.demo().await;
    let json = [("content-type", "application/json")];
    for (method, path, body, says) in [
        ("POST", "/clusters", "", "value is required but missing"),
        ("POST", "/clusters", "{}", "property \"tenant\" is missing"),
        ("POST", "/tenants", "{}", "required"),
        ("PUT", "/clusters/c-demo", "{", "invalid character"),
        ("PATCH", "/clusters/c-demo", "nonsense", "invalid character"),
        ("PATCH", "/clusters/c-demo", "{\"facts\":7}", "facts"),
        (
            "POST",
            "/clusters/c-demo/compileMeta",
            "",
            "value is required but missing",
        ),
        ("GET", "/clusters?sort_by=x", "", "sort_by"),
    ] {
        rig.send(method, path, &json, body).await.is(400, says);
    }
    let unknown = rig
        .send("PATCH", "/clusters/c-demo", &json, "{\"nmae\":1}")
        .await;
    unknown.is(400, "missing or malformed jwt");
    rig.patch("/clusters/c-demo", &json!({ "nmae": 1 }))
        .await
        .is(400, "unknown field");
}

#[tokio::test]
async fn without_a_bearer_token_it_is_400_and_with_a_wrong_one_401() {
    let rig = Rig::new().await;
    for path in ["/clusters", "/tenants", "/clusters/c-x", "/clusters/"] {
        for none in [
            "",
            "Bearer",
            "Bearer ",
            "Basic eDp5",
            "BearerX flt_x",
            "BearerXflt_x",
        ] {
            let headers: &[(&str, &str)] = if none.is_empty() {
                &[]
            } else {
                &[("authorization", none)]
            };
            let reply = rig.send("GET", path, headers, "").await;
            assert_eq!(reply.status, 400, "{path} {none:?}");
            assert_eq!(
                reply.reason(),
                "missing or malformed jwt",
                "{path} {none:?}"
            );
        }
        let wrong = rig
            .send("GET", path, &[("authorization", "Bearer None")], "")
            .await;
        assert_eq!(wrong.status, 401, "{path}");
    }
}

#[tokio::test]
async fn every_failure_is_a_reason_of_one_line() {
    let rig = Rig::new().await;
    rig.demo().await;
    for (method, path, body, status) in [
        ("GET", "/clusters/c-none", "", 404),
        ("GET", "/tenants/t-none", "", 404),
        ("GET", "/nothing", "", 404),
        ("DELETE", "/clusters", "", 405),
        ("POST", "/clusters", "{\n\"x\n", 400),
        ("PUT", "/clusters/c-demo", "[]", 400),
        (
            "POST",
            "/clusters",
            r#"{"id":"c-demo","tenant":"t-acme"}"#,
            409,
        ),
    ] {
        let reply = rig.call(method, path, body).await;
        assert_eq!(reply.status, status, "{method} {path}: {reply:?}");
        assert!(!reply.reason().is_empty());
        assert_eq!(reply.header("content-type"), "application/json");
    }
}

#[tokio::test]
async fn unknown_fields_are_refused_on_patch_and_dropped_elsewhere() {
    let rig = Rig::new().await;
    rig.demo().await;
    for (path, body) in [
        ("/clusters/c-demo", json!({ "x": 1 })),
        ("/clusters/c-demo", json!({ "id": "c-other" })),
        ("/clusters/c-demo", json!({ "tenant": "t-acme" })),
        ("/tenants/t-acme", json!({ "x": 1 })),
        ("/tenants/t-acme", json!({ "id": "t-other" })),
    ] {
        rig.patch(path, &body).await.is(400, "unknown field");
    }
    let post = json!({ "tenant": "t-acme", "x": { "y": 1 } }).to_string();
    let made = rig.call("POST", "/clusters", &post).await.good();
    assert!(made.get("x").is_none());
    rig.call("PUT", "/clusters/c-demo", &post).await.good();
    let tenant = json!({ "gitRepo": { "url": "ssh://g@e/a/b" }, "x": 1 }).to_string();
    rig.call("PUT", "/tenants/t-acme", &tenant).await.good();
    let meta = json!({ "x": 1, "packages": { "p": { "y": 2, "url": "u" } } }).to_string();
    let stored = rig
        .call("POST", "/clusters/c-demo/compileMeta", &meta)
        .await;
    assert_eq!((stored.status, stored.text.as_str()), (204, ""));
    let shown = rig.get("/clusters/c-demo").await.good();
    assert_eq!(
        shown["compileMeta"],
        json!({ "packages": { "p": { "url": "u" } } })
    );
}

#[tokio::test]
async fn a_taken_id_is_409() {
    let rig = Rig::new().await;
    rig.demo().await;
    let body = r#"{"id":"demo","tenant":"t-acme"}"#;
    assert_eq!(rig.call("POST", "/clusters", body).await.status, 409);
    let body = r#"{"id":"acme","gitRepo":{"url":"ssh://g@e/a/b"}}"#;
    assert_eq!(rig.call("POST", "/tenants", body).await.status, 409);
}

#[tokio::test]
async fn a_slash_at_the_end_is_accepted_on_every_path() {
    let rig = Rig::new().await;
    rig.demo().await;
    for path in [
        "/clusters",
        "/tenants",
        "/clusters/c-demo",
        "/tenants/t-acme",
        "/healthz",
    ] {
        let (one, two) = (rig.get(path).await, rig.get(&format!("{path}/")).await);
        assert_eq!((one.status, &one.text), (200, &two.text), "{path}");
    }
    let query = rig
        .get("/clusters/?sort_by=tenant&tenant=t-acme")
        .await
        .good();
    assert_eq!(query.as_array().unwrap().len(), 1);
    let meta = rig
        .call("POST", "/clusters/c-demo/compileMeta/", "{}")
        .await;
    assert_eq!(meta.status, 204);
}

#[tokio::test]
async fn lists_are_sorted_and_filtered_as_asked_and_odd_parameters_are_400() {
    let rig = Rig::new().await;
    rig.tenant("t-a").await;
    rig.tenant("t-b").await;
    for (id, tenant, name) in [
        ("c-1", "t-b", "x"),
        ("c-2", "t-a", "y"),
        ("c-3", "t-a", "x"),
    ] {
        let body = json!({ "id": id, "tenant": tenant, "displayName": name });
        rig.call("POST", "/clusters", &body.to_string())
            .await
            .good();
    }
    let ids = async |query: &str| {
        let list = rig.get(&format!("/clusters{query}")).await.good();
        let ids = list.as_array().unwrap().iter();
        ids.map(|it| it["id"].as_str().unwrap()[2..].to_owned())
            .collect::<String>()
    };
    assert_eq!(ids("").await, "123");
    assert_eq!(ids("?sort_by=id").await, "123");
    assert_eq!(ids("?sort_by=tenant").await, "231");
    assert_eq!(ids("?sort_by=displayName").await, "132");
    assert_eq!(ids("?tenant=t-a&sort_by=displayName").await, "32");
    assert_eq!(ids("?unknown=1&unknown=2").await, "123");
    assert_eq!(ids("?tenant=t-none").await, "");
    assert_eq!(ids("?tenant=nonsense").await, "");
    for bad in [
        "?sort_by=",
        "?sort_by=name",
        "?sort_by=id&sort_by=id",
        "?tenant=",
    ] {
        rig.get(&format!("/clusters{bad}")).await.is(400, "");
    }
}

#[tokio::test]
async fn ids_get_their_prefix_or_are_made_up() {
    let rig = Rig::new().await;
    assert_eq!(rig.tenant("acme").await["id"], "t-acme");
    let made = async |body: Value| {
        let made = rig
            .call("POST", "/clusters", &body.to_string())
            .await
            .good();
        made["id"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        made(json!({ "tenant": "t-acme", "id": "demo" })).await,
        "c-demo"
    );
    assert_eq!(
        made(json!({ "tenant": "acme", "id": "c-other" })).await,
        "c-other"
    );
    let id = made(json!({ "tenant": "t-acme" })).await;
    let parts: Vec<&str> = id.split('-').collect();
    assert_eq!((parts.len(), parts[0]), (4, "c"), "{id}");
    assert!(
        parts[3].bytes().all(|b| b.is_ascii_digit()) && id.len() <= 63,
        "{id}"
    );
    assert_eq!(id, id.to_lowercase());
    let body = json!({ "id": "c-elsewhere", "tenant": "t-acme" }).to_string();
    let put = rig.call("PUT", "/clusters/c-here", &body).await;
    assert_eq!(
        (put.status, &put.json()["id"]),
        (201, &json!("c-here")),
        "the path wins"
    );
    let long = json!({ "id": "a".repeat(62), "tenant": "t-acme" }).to_string();
    rig.call("POST", "/clusters", &long).await.is(400, "id");
}

#[tokio::test]
async fn every_cluster_has_a_repository_a_compile_meta_and_a_name() {
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
async fn put_creates_or_replaces_and_leaves_dynamic_facts_alone() {
    let rig = Rig::new().await;
    rig.tenant("t-acme").await;
    let first = json!({
        "tenant": "t-acme", "facts": { "a": "1" }, "annotations": { "x": "1" },
        "dynamicFacts": { "d": 1 }, "displayName": "One",
    });
    let put = rig.call("PUT", "/clusters/c-p", &first.to_string()).await;
    assert_eq!(
        (put.status, &put.json()["dynamicFacts"]),
        (201, &json!({ "d": 1 }))
    );
    let second = json!({ "tenant": "t-acme", "facts": { "b": "2" }, "dynamicFacts": { "d": 2 } });
    let put = rig.call("PUT", "/clusters/c-p", &second.to_string()).await;
    let shown = put.json();
    assert_eq!(put.status, 200);
    assert_eq!(shown["facts"], json!({ "b": "2" }));
    assert_eq!(shown["annotations"], json!({}));
    assert_eq!(shown["displayName"], "c-p");
    assert_eq!(shown["dynamicFacts"], json!({ "d": 1 }));
}

#[tokio::test]
async fn commodore_reads_clusters_and_tenants_and_reports_what_it_compiled() {
    let rig = Rig::new().await;
    rig.demo().await;
    let token = rig.token(Role::Compile, None, None).await;
    let read = async |path: &str| rig.as_who(&token, "GET", path, "").await.good();
    let list = read("/clusters/").await;
    assert_eq!(list[0]["displayName"], "Demo");
    let cluster = read("/clusters/c-demo").await;
    assert_eq!(
        cluster["facts"],
        json!({ "cloud": "aws", "distribution": "openshift4" })
    );
    assert_eq!(
        cluster["gitRepo"]["url"],
        "ssh://git@git.example/syn/demo.git"
    );
    let tenant = read("/tenants/t-acme").await;
    assert_eq!(
        tenant["gitRepo"]["url"],
        "ssh://git@git.example/syn/tenant.git"
    );
    assert_eq!(
        tenant["globalGitRepoURL"],
        "ssh://git@git.example/syn/global.git"
    );
    let meta = json!({
        "commodoreBuildInfo": { "gitVersion": "1", "version": "v1.20.0" },
        "global": { "gitSha": "a", "url": "u", "version": "master" },
        "tenant": { "gitSha": "b", "url": "u", "version": "master" },
        "instances": { "argocd": { "component": "argocd", "gitSha": "c", "path": "/", "url": "u", "version": "v1.0.0" } },
        "packages": {},
        "lastCompile": "2026-11-21T13:00:00.123+02:00",
    });
    let path = "/clusters/c-demo/compileMeta";
    let stored = rig.as_who(&token, "POST", path, &meta.to_string()).await;
    assert_eq!((stored.status, stored.text.as_str()), (204, ""));
    let shown = read("/clusters/c-demo").await["compileMeta"].clone();
    assert_eq!(shown["lastCompile"], "2026-11-21T11:00:00.123Z");
    assert_eq!(shown["instances"], meta["instances"]);
    let none = [("authorization", "Bearer ")];
    assert_eq!(rig.send("GET", "/clusters/", &none, "").await.status, 400);
}

#[tokio::test]
async fn the_root_says_where_to_log_in_and_needs_no_token() {
    let rig = Rig::with(|config| {
        config.discovery.oidc = Some(("https://id.example/x".to_owned(), "syn".to_owned()));
        config.discovery.vault =
            Some(("https://vault.example".to_owned(), Some("oidc".to_owned())));
    })
    .await;
    let root = rig.send("GET", "/", &[], "").await.good();
    assert_eq!(
        root["oidc"],
        json!({ "discoveryUrl": "https://id.example/x", "clientId": "syn" })
    );
    assert_eq!(
        root["vault"],
        json!({ "addr": "https://vault.example", "loginMethod": "oidc" })
    );
    assert!(root["apiVersion"].is_string());
    let health = rig.send("GET", "/healthz", &[], "").await;
    assert_eq!((health.status, health.text.as_str()), (200, "ok"));
    assert!(health.header("content-type").starts_with("text/plain"));
    for path in ["/openapi.json", "/docs"] {
        assert_eq!(rig.send("GET", path, &[], "").await.status, 200, "{path}");
    }
}
