//! Malformed requests: paths that are not UTF-8, other content types, unknown fields.

use axum::Extension;
use http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::rig::{Rig, admin, principal};

/// Status and code of the response to a body of this type.
async fn typed(
    rig: &Rig,
    method: Method,
    path: &str,
    kind: Option<&str>,
    body: &Value,
) -> (StatusCode, String) {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(kind) = kind {
        request = request.header(header::CONTENT_TYPE, kind);
    }
    let request = request
        .body(axum::body::Body::from(body.to_string()))
        .unwrap();
    let people = rig.user_routes().layer(Extension(principal(&admin())));
    let response = people.oneshot(request).await.unwrap();
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20)
        .await
        .unwrap();
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    (status, told["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn non_utf8_paths_are_rejected_with_a_code() {
    let rig = Rig::new().await;
    for path in [
        "/clusters/%ff",
        "/tenants/%ff",
        "/v1/clusters/%ff/facts",
        "/v1/clusters/%ff/catalog",
        "/v1/clusters/%ff/agent",
        "/v1/facts/%ff/changes",
        "/docs/%ff",
    ] {
        let reply = match path.starts_with("/docs") {
            true => rig.open(path).await,
            false => rig.get(&admin(), path).await,
        };
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{path}");
        assert_eq!(reply.json()["code"], "FL-1304", "{path}");
    }
    let reply = rig.delete(&admin(), "/v1/tokens/%ff").await;
    assert_eq!(reply.json()["code"], "FL-1304");
}

#[tokio::test]
async fn a_body_of_another_type_than_json_is_415() {
    let rig = Rig::new().await;
    let name = json!({ "displayName": "A" });
    let tenant = json!({ "gitRepo": { "type": "unmanaged" } });
    let token = json!({ "name": "ann", "role": "viewer" });
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/yaml",
        "application/json-patch+json",
        "application/strategic-merge-patch+json",
        "",
    ] {
        for (method, path, body) in [
            (Method::PATCH, "/tenants/t-default", &name),
            (Method::PUT, "/tenants/t-new", &tenant),
            (Method::POST, "/tenants", &tenant),
            (Method::POST, "/v1/tokens", &token),
        ] {
            let told = typed(&rig, method, path, Some(kind), body).await;
            let expected = (StatusCode::UNSUPPORTED_MEDIA_TYPE, "FL-1309".to_owned());
            assert_eq!(told, expected, "{path} {kind:?}");
        }
    }
    for kind in [
        Some("application/merge-patch+json"),
        Some("Application/JSON; charset=utf-8"),
        None,
    ] {
        let (status, _) = typed(&rig, Method::PATCH, "/tenants/t-default", kind, &name).await;
        assert_eq!(status, StatusCode::OK, "{kind:?}");
    }
    let merge = Some("application/merge-patch+json");
    let (status, _) = typed(&rig, Method::POST, "/v1/tokens", merge, &token).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "it is a table")]
async fn a_patch_names_no_unknown_field_at_any_depth() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    rig.cluster("demo", "t-acme").await;
    for (path, body, field) in [
        (
            "/clusters/c-demo",
            json!({ "gitRepo": { "nonsense": 1 } }),
            "gitRepo.nonsense",
        ),
        (
            "/clusters/c-demo",
            json!({ "gitRepo": { "state": null } }),
            "gitRepo.state",
        ),
        (
            "/clusters/c-demo",
            json!({ "gitRepo": { "deployKeys": { "ci": { "key": "ssh-rsa AAAA", "write": true } } } }),
            "gitRepo.deployKeys.ci.write",
        ),
        (
            "/clusters/c-demo",
            json!({ "gitRepo": { "apiSecretRef": { "name": "a", "key": "b" } } }),
            "key",
        ),
        (
            "/clusters/c-demo",
            json!({ "kubeApi": { "endpoint": "https://k", "port": 1 } }),
            "kubeApi.port",
        ),
        (
            "/clusters/c-demo",
            json!({ "compileMeta": { "instances": { "a": { "vresion": "1" } } } }),
            "compileMeta.instances.a.vresion",
        ),
        (
            "/clusters/c-demo",
            json!({ "compileMeta": { "nonsense": 1 } }),
            "compileMeta.nonsense",
        ),
        (
            "/tenants/t-acme",
            json!({ "gitRepo": { "nonsense": 1 } }),
            "gitRepo.nonsense",
        ),
        (
            "/tenants/t-acme",
            json!({ "clusterTemplate": { "gitRepo": { "nonsense": 1 } } }),
            "clusterTemplate.gitRepo.nonsense",
        ),
        (
            "/tenants/t-acme",
            json!({ "clusterTemplate": { "agent": { "nonsense": 1 } } }),
            "nonsense",
        ),
    ] {
        let reply = rig.call(&admin(), Method::PATCH, path, body.clone()).await;
        assert_eq!(
            reply.status,
            StatusCode::BAD_REQUEST,
            "{body}: {}",
            reply.text
        );
        assert!(reply.text.contains(field), "{body}: {}", reply.text);
    }
    for (path, body) in [
        (
            "/clusters/c-demo",
            json!({ "gitRepo": { "type": "auto", "repoName": "demo" } }),
        ),
        (
            "/clusters/c-demo",
            json!({ "compileMeta": { "packages": {}, "lastCompile": "2026-11-22T00:00:00Z" } }),
        ),
        (
            "/tenants/t-acme",
            json!({ "gitRepo": { "revision": "v1" } }),
        ),
    ] {
        rig.call(&admin(), Method::PATCH, path, body).await.good();
    }
    let off = json!({ "facts": { "disabledCollectors": ["nosuch"] } });
    let reply = rig
        .call(&admin(), Method::PUT, "/v1/clusters/c-demo/agent", off)
        .await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert!(
        reply.text.contains("nosuch") && reply.text.contains("helm"),
        "{}",
        reply.text
    );
}

#[tokio::test]
async fn a_tenant_without_repository_can_be_replaced() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    let put = async |path: &str| {
        let body = json!({ "displayName": "Other" });
        rig.call(&admin(), Method::PUT, path, body).await
    };
    put("/tenants/t-default").await.good();
    for path in ["/tenants/t-acme", "/tenants/t-new"] {
        let refused = put(path).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{path}");
        assert!(refused.text.contains("gitRepo.url is required"), "{path}");
    }
}

#[tokio::test]
async fn times_that_no_calendar_in_utc_has_are_rejected() {
    let rig = Rig::new().await;
    rig.tenant("acme").await;
    rig.cluster("demo", "t-acme").await;
    let late = "9999-12-31T23:59:59-01:00";
    let read = rig
        .get(&admin(), &format!("/v1/audit/requests?since={late}"))
        .await;
    assert_eq!(read.status, StatusCode::BAD_REQUEST, "{}", read.text);
    let compiled = json!({ "compileMeta": { "lastCompile": late } });
    let patched = rig
        .call(&admin(), Method::PATCH, "/clusters/c-demo", compiled)
        .await;
    assert_eq!(patched.status, StatusCode::BAD_REQUEST, "{}", patched.text);
}

#[tokio::test]
async fn filter_by_cluster_takes_only_ids_of_clusters() {
    let rig = Rig::new().await;
    for path in ["/v1/audit", "/v1/audit/requests", "/v1/requests"] {
        let reply = rig.get(&admin(), &format!("{path}?cluster=null")).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{path}");
        rig.get(&admin(), &format!("{path}?cluster=c-gone"))
            .await
            .good();
    }
}

#[tokio::test]
async fn optional_field_of_a_request_is_never_null() {
    let rig = Rig::new().await;
    for (method, path, body) in [
        (
            Method::PUT,
            "/v1/locks/user/ann",
            json!({ "reason": "laptop stolen", "ttlSeconds": null }),
        ),
        (
            Method::POST,
            "/v1/tokens",
            json!({ "name": "ann", "role": "viewer", "tenant": null }),
        ),
    ] {
        let reply = rig.call(&admin(), method, path, body).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{path}");
    }
}
