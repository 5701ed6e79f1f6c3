//! `/openapi.json` against the router: both contain the same routes.

use std::collections::{BTreeMap, BTreeSet};

use axum::{Extension, Router};
use fairlead_api::Code;
use http::{Method, header};
use serde_json::{Value, json};

use crate::rig::{Rig, admin, principal};

type Methods = BTreeMap<String, BTreeSet<String>>;

/// Path with anonymous parameters.
fn bare(path: &str) -> String {
    let segment = |segment: &str| match segment.starts_with('{') {
        true => "{}".to_owned(),
        false => segment.to_owned(),
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// Paths of a router, from its `Debug` output: axum has no other access.
fn paths(router: &Router) -> BTreeSet<String> {
    let text = format!("{router:?}");
    let after = text.split("RouteId(").skip(1);
    let path = |after: &str| {
        let path = after.split_once("): \"")?;
        path.0.parse::<u32>().ok()?;
        Some(path.1.split('"').next()?.to_owned())
    };
    // axum's fallback appears as a path, too.
    let ours = |path: &String| !path.contains("__private__axum");
    after.filter_map(path).filter(ours).collect()
}

async fn routed(rig: &Rig) -> Methods {
    let modules = rig.control.seam().modules;
    let all = Router::new();
    let all = modules.iter().fold(all, |all, module| {
        all.merge(module.user_routes()).merge(module.open_routes())
    });
    let all = all.layer(Extension(principal(&admin())));
    let mut routed = Methods::new();
    for path in paths(&all) {
        // The `Allow` header of a 405 lists a path's methods.
        let real = path.replace(['{', '}'], "");
        let strange = Method::from_bytes(b"PROPFIND").unwrap();
        let reply = rig.of(all.clone(), strange, &real).await;
        let allowed = reply.headers.get(header::ALLOW);
        let allowed = allowed.unwrap_or_else(|| panic!("{path}: {reply:?}"));
        let allowed = allowed.to_str().unwrap().to_lowercase();
        let methods = allowed.split(',').map(|it| it.trim().to_owned());
        routed.insert(bare(&path), methods.filter(|it| it != "head").collect());
    }
    routed
}

fn described(document: &Value) -> Methods {
    let paths = document["paths"].as_object().unwrap().iter();
    let methods = |of: &Value| of.as_object().unwrap().keys().cloned().collect();
    paths.map(|(path, of)| (bare(path), methods(of))).collect()
}

#[tokio::test]
async fn every_route_is_described_and_nothing_else_is() {
    let rig = Rig::new().await;
    let mut routed = routed(&rig).await;
    // Assets of the page `/docs`.
    assert!(routed.remove("/docs/{}").is_some());
    assert!(routed.len() > 30);
    let document = rig.open("/openapi.json").await.good();
    assert_eq!(routed, described(&document));
}

#[tokio::test]
async fn every_referenced_schema_exists_and_ids_are_unique() {
    let rig = Rig::new().await;
    let document = rig.open("/openapi.json").await.good();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    assert!(schemas.len() > 30);
    let text = document.to_string();
    for named in text.split("#/components/schemas/").skip(1) {
        let name = named.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
    let paths = document["paths"].as_object().unwrap().values();
    let operations = paths.flat_map(|methods| methods.as_object().unwrap().values());
    let mut ids: Vec<_> = operations
        .map(|it| it["operationId"].as_str().unwrap())
        .collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
    assert_eq!(rig.control.routes().len(), count);
}

fn parameters<'a>(document: &'a Value, path: &str) -> BTreeSet<&'a str> {
    let given = document["paths"][path]["get"]["parameters"].as_array();
    let given = given.unwrap().iter().filter(|it| it["in"] == "query");
    given.map(|it| it["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_history_accepts_exactly_the_described_parameters() {
    let rig = Rig::new().await;
    rig.cluster("demo", "default").await;
    let document = rig.open("/openapi.json").await.good();
    for (real, path) in [
        (
            "/v1/clusters/c-demo/facts/history",
            "/v1/clusters/{clusterId}/facts/history",
        ),
        ("/v1/facts/x/changes", "/v1/facts/{name}/changes"),
    ] {
        let mut known = BTreeSet::new();
        for name in ["fact", "at", "from", "to", "limit", "cursor"] {
            let value = match name {
                "limit" => "5",
                "cursor" if path.contains("clusterId") => "7.1",
                "cursor" => "7.c-demo.1.3",
                "fact" => "x",
                _ => "2026-11-21T12:00:00Z",
            };
            let reply = rig.get(&admin(), &format!("{real}?{name}={value}")).await;
            if reply.status.is_success() {
                known.insert(name);
            }
        }
        assert_eq!(known, parameters(&document, path), "{path}");
        let strange = rig.get(&admin(), &format!("{real}?colour=red")).await;
        let told = strange.json()["reason"].as_str().unwrap().to_owned();
        assert!(told.contains("unknown field `colour`"), "{told}");
        // A new parameter is added to the list above as well.
        assert!(
            told.contains("expected one of `fact`, `at`, `from`, `to`, `limit`, `cursor`"),
            "{told}"
        );
    }
    let page = |name: &&str| !["limit", "cursor"].contains(name);
    for name in parameters(&document, "/v1/find").into_iter().filter(page) {
        let term = if name == "version" { "<1.31" } else { "x" };
        let found = format!("/v1/find?{name}={}", term.replace('<', "%3C"));
        rig.get(&admin(), &found).await.good();
    }
    let strange = rig.get(&admin(), "/v1/find?colour=red").await;
    assert_eq!(strange.code(), Code::Invalid);
}

#[tokio::test]
async fn responses_contain_described_fields_only() {
    let rig = Rig::new().await;
    rig.cluster("demo", "default").await;
    let facts = json!({ "facts": { "region": "eu" } });
    let patched = rig
        .call(&admin(), Method::PATCH, "/clusters/c-demo", facts)
        .await;
    patched.good();
    let settings = json!({ "version": "1", "allowConnect": ["db:5432"], "facts": { "intervalSeconds": 60, "disabledCollectors": ["helm"] } });
    let put = rig
        .call(&admin(), Method::PUT, "/v1/clusters/c-demo/agent", settings)
        .await;
    put.good();
    let document = rig.open("/openapi.json").await.good();
    for (path, schema) in [
        ("/v1/clusters/c-demo/facts", "ClusterFacts"),
        ("/v1/clusters/c-demo/facts/history", "FactHistory"),
        ("/v1/find?fact=region=eu", "ClusterMatches"),
        ("/v1/agents", "AgentConfigStatus"),
        ("/v1/status", "ClusterStatusUpdate"),
        ("/v1/clusters/c-demo/config", "AgentConfig"),
        ("/v1/clusters/c-demo/agent", "AgentSettings"),
    ] {
        let answer = rig.get(&admin(), path).await.good();
        let items = answer.get("items").map_or(&answer, |items| &items[0]);
        let known = &document["components"]["schemas"][schema]["properties"];
        let known = match answer.get("items") {
            Some(_) => &known["items"]["items"]["properties"],
            None => known,
        };
        for name in items.as_object().unwrap().keys() {
            assert!(known.get(name).is_some(), "{schema}: {name}");
        }
    }
}

/// Other responses contain secrets, and a compressed length could reveal them (BREACH).
#[tokio::test]
async fn only_public_documents_are_compressed_and_on_request() {
    let rig = Rig::new().await;
    let get = async |path: &str, encoding: Option<&str>| {
        let mut router = axum::Router::new();
        for module in rig.control.seam().modules {
            router = router.merge(module.open_routes());
        }
        let mut request = http::Request::get(path);
        if let Some(encoding) = encoding {
            request = request.header("accept-encoding", encoding);
        }
        let request = request.body(axum::body::Body::empty()).unwrap();
        let response = tower::ServiceExt::oneshot(router, request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = http_body_util::BodyExt::collect(body).await.unwrap();
        (head, body.to_bytes())
    };
    for path in ["/openapi.json", "/docs", "/docs/swagger-ui-bundle.js"] {
        let (head, plain) = get(path, None).await;
        assert!(!head.headers.contains_key("content-encoding"), "{path}");
        assert_eq!(head.headers["vary"], "accept-encoding");
        for _ in 0..2 {
            let (head, packed) = get(path, Some("gzip, br")).await;
            assert_eq!(head.headers["content-encoding"], "gzip", "{path}");
            let mut unpacked = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(&packed[..]);
            std::io::Read::read_to_end(&mut decoder, &mut unpacked).unwrap();
            assert_eq!(unpacked, plain, "{path}");
        }
    }
    let join = rig.cluster("demo", "t-default").await;
    let url = secrecy::ExposeSecret::expose_secret(&join.agent_install_url);
    let path = url
        .trim_start_matches("https://hub.example:8443")
        .to_owned();
    let (head, body) = get(&path, Some("gzip")).await;
    assert!(head.status.is_success() && !body.is_empty(), "{head:?}");
    assert!(!head.headers.contains_key("content-encoding"));
}
