//! Validation of requests, and failures.

use serde_json::json;

use crate::rig::Rig;

#[tokio::test]
async fn a_request_is_validated_before_its_caller_is_authenticated() {
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
async fn errors_of_a_body_have_the_texts_that_clients_search_for() {
    let rig = Rig::new().await;
    rig.demo().await;
    for (method, path, body, says) in [
        ("POST", "/clusters", "", "value is required but missing"),
        (
            "PUT",
            "/clusters/c-demo",
            " ",
            "value is required but missing",
        ),
        (
            "PATCH",
            "/tenants/t-acme",
            "",
            "value is required but missing",
        ),
        ("POST", "/clusters", "{}", "property \"tenant\" is missing"),
        (
            "PUT",
            "/clusters/c-new",
            "{}",
            "property \"tenant\" is missing",
        ),
        ("POST", "/tenants", "no JSON", "invalid character"),
        ("PATCH", "/clusters/c-demo", "{\"x\":1}", "unknown field"),
        ("POST", "/tenants", "{}", "required"),
        ("POST", "/tenants", "{\"gitRepo\":{}}", "required"),
        ("PUT", "/tenants/t-new", "{}", "required"),
    ] {
        rig.call(method, path, body).await.is(400, says);
    }
}

#[tokio::test]
async fn unknown_fields_are_refused_on_patch_and_dropped_elsewhere() {
    let rig = Rig::new().await;
    rig.demo().await;
    for (path, body) in [
        ("/clusters/c-demo", json!({ "x": 1 })),
        ("/tenants/t-acme", json!({ "x": 1 })),
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
    let document = rig.get("/openapi.json").await.good();
    let mut paths = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let real = path
            .replace("{clusterId}", "c-demo")
            .replace("{tenantId}", "t-acme");
        let real = real.replace("{name}", "cloud");
        if methods.get("get").is_none() || path == "/" {
            continue;
        }
        let (one, two) = (rig.get(&real).await, rig.get(&format!("{real}/")).await);
        assert_eq!(one.status, two.status, "{path}");
        // The list of running requests holds the request for it.
        if path != "/v1/requests" {
            assert_eq!(one.text, two.text, "{path}");
        }
        assert_ne!(one.header("fairlead-code"), "FL-1305", "{path}");
        paths += 1;
    }
    assert!(paths > 20, "{paths}");
    let query = rig.get("/clusters/?sort_by=tenant&tenant=t-acme").await;
    assert_eq!(query.good().as_array().unwrap().len(), 1);
    let meta = rig
        .call("POST", "/clusters/c-demo/compileMeta/", "{}")
        .await;
    assert_eq!(meta.status, 204);
    assert_eq!(
        rig.call("DELETE", "/clusters/c-demo/", "").await.status,
        204
    );
}
