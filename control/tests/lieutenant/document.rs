//! Our OpenAPI document: contains all of Lieutenant's and matches the responses.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::rig::Rig;

const THEIRS: &str = include_str!("data/openapi.yaml");

/// The target of a `$ref`, or the value itself.
fn resolved<'a>(document: &'a Value, it: &'a Value) -> &'a Value {
    match it.get("$ref").and_then(Value::as_str) {
        Some(to) => document.pointer(to.strip_prefix('#').unwrap()).unwrap(),
        None => it,
    }
}

/// Paths of all fields of a schema.
fn fields(document: &Value, schema: &Value, at: &str, into: &mut BTreeSet<String>) {
    let schema = resolved(document, schema);
    for part in schema["allOf"].as_array().into_iter().flatten() {
        fields(document, part, at, into);
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{at}.{name}");
        fields(document, field, &path, into);
        into.insert(path);
    }
    for inner in ["items", "additionalProperties"] {
        if schema[inner].is_object() {
            fields(document, &schema[inner], &format!("{at}[]"), into);
        }
    }
}

/// Schemas of a body, by content type.
fn contents(document: &Value, body: &Value) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let body = resolved(document, body);
    for (kind, content) in body["content"].as_object().into_iter().flatten() {
        all.insert(kind.clone());
        fields(document, &content["schema"], kind, &mut all);
    }
    all
}

fn parameters(document: &Value, operation: &Value) -> BTreeSet<String> {
    let given = operation["parameters"].as_array().into_iter().flatten();
    let shown = given.map(|it| {
        let it = resolved(document, it);
        format!("{} {}", it["in"], it["name"])
    });
    shown.collect()
}

#[tokio::test]
async fn the_document_contains_all_of_lieutenants() {
    let rig = Rig::new().await;
    let ours = rig.send("GET", "/openapi.json", &[], "").await.good();
    assert_eq!(ours["openapi"], "3.1.0");
    let theirs: Value = serde_saphyr::from_str(THEIRS).unwrap();
    let mut operations = 0;
    for (path, methods) in theirs["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            operations += 1;
            let at = format!("{method} {path}");
            let own = &ours["paths"][path][method];
            assert!(own.is_object(), "{at}");
            assert_eq!(own["operationId"], operation["operationId"], "{at}");
            let (wanted, known) = (parameters(&theirs, operation), parameters(&ours, own));
            assert!(wanted.is_subset(&known), "{at}: {wanted:?}, not {known:?}");
            let body = contents(&theirs, &operation["requestBody"]);
            let known = contents(&ours, &own["requestBody"]);
            let missing: Vec<_> = body.difference(&known).collect();
            assert!(missing.is_empty(), "{at} takes no {missing:?}");
            for (status, response) in operation["responses"].as_object().unwrap() {
                let answer = &own["responses"][status];
                assert!(answer.is_object(), "{at}: no {status}");
                let (wanted, known) = (contents(&theirs, response), contents(&ours, answer));
                let missing: Vec<_> = wanted.difference(&known).collect();
                assert!(missing.is_empty(), "{at} {status} has no {missing:?}");
            }
        }
    }
    assert_eq!(operations, 20);
}

#[tokio::test]
async fn every_described_operation_exists() {
    let rig = Rig::new().await;
    rig.demo().await;
    let ours = rig.send("GET", "/openapi.json", &[], "").await.good();
    for (path, methods) in ours["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let real = path
                .replace("{clusterId}", "c-none")
                .replace("{tenantId}", "t-none");
            let real = real.replace("{tokenId}", "k-none").replace("{name}", "x");
            let method = method.to_uppercase();
            let reply = rig.call(&method, &real, "").await;
            let known = reply.header("fairlead-code");
            assert!(
                known != "FL-1305" && known != "FL-1307",
                "{method} {path}: {reply:?}"
            );
            let listed = &ours["paths"][path][method.to_lowercase()]["responses"];
            let status = reply.status.to_string();
            assert!(
                listed.get(&status).is_some(),
                "{method} {path}: {status} is not in it"
            );
        }
    }
}

#[tokio::test]
async fn responses_contain_described_fields_only() {
    let rig = Rig::new().await;
    let made = rig.demo().await;
    let ours = rig.send("GET", "/openapi.json", &[], "").await.good();
    let full = serde_json::json!({
        "annotations": { "a": "b" }, "tenantGitRepoRevision": "v", "globalGitRepoRevision": "v",
        "kubeApi": { "endpoint": "https://k.example", "credentials": { "name": "n" } },
        "creationPolicy": "Adopt", "deletionPolicy": "Archive", "deleteProtection": true,
        "gitRepo": { "hostKeys": "h", "deployKey": "ssh-rsa AAAA" },
    });
    rig.patch("/clusters/c-demo", &full).await.good();
    for (answer, schema) in [
        (made, "CreatedCluster"),
        (rig.get("/clusters/c-demo").await.good(), "Cluster"),
        (rig.get("/tenants/t-acme").await.good(), "Tenant"),
        (
            rig.get("/v1/clusters/c-demo/bootstrap-token").await.good(),
            "JoinInfo",
        ),
        (
            rig.get("/v1/bootstrap-tokens").await.good(),
            "BootstrapTokens",
        ),
        (rig.get("/v1/hub").await.good(), "HubInfo"),
        (rig.get("/v1/whoami").await.good(), "WhoAmI"),
        (rig.get("/v1/tokens").await.good(), "Tokens"),
        (rig.get("/v1/changes?since=1").await.good(), "Changes"),
        (rig.get("/v1/audit").await.good(), "Audit"),
        (rig.get("/clusters/c-none").await.json(), "Reason"),
    ] {
        let mut known = BTreeSet::new();
        fields(
            &ours,
            &ours["components"]["schemas"][schema],
            "",
            &mut known,
        );
        for name in answer.as_object().unwrap().keys() {
            assert!(known.contains(&format!(".{name}")), "{schema}.{name}");
        }
        for (name, item) in answer["items"][0].as_object().into_iter().flatten() {
            assert!(
                known.contains(&format!(".items[].{name}")),
                "{schema} {name} {item}"
            );
        }
    }
}

#[tokio::test]
async fn the_page_loads_from_its_own_origin_only() {
    let rig = Rig::new().await;
    let page = rig.send("GET", "/docs", &[], "").await;
    assert!(page.header("content-type").starts_with("text/html"));
    assert!(
        page.header("content-security-policy")
            .starts_with("default-src 'self'")
    );
    assert!(!page.text.contains("http"), "{}", page.text);
    for part in page.text.split("\"/docs/").skip(1) {
        let name = part.split('"').next().unwrap();
        let reply = rig.send("GET", &format!("/docs/{name}"), &[], "").await;
        assert_eq!(reply.status, 200, "{name}");
        assert!(!reply.text.is_empty(), "{name}");
    }
    assert_eq!(
        rig.send("GET", "/docs/nothing.js", &[], "").await.status,
        404
    );
}
