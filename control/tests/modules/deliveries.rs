//! Deliveries: desired states, specs and artifacts of agents, their reports, and what people see and change.

use axum::{Extension, body::Body};
use fairlead_api::{
    Code,
    delivery::{ARTIFACTS_PATH, DELIVERY_PATH, REPORTS_PATH, SPECS_PATH},
    resources::{ClusterState, ClusterStatus, Role},
};
use fairlead_runtime::Process;
use fairlead_seam::AgentPeer;
use fairlead_testkit::wait::{TEST_DEADLINE, eventually};
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::{
    archives::uploaded,
    rig::{Reply, Rig, admin, caller, peer},
};

const BUNDLE: &str = "/v1/bundles/b-shop";
const MANIFEST: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n";

/// A hub with a bundle for the clusters of a tenant, and an agent in each of two tenants.
struct Deliveries {
    rig: Rig,
    own: AgentPeer,
    other: AgentPeer,
    _work: tokio::task::JoinHandle<()>,
}

impl Deliveries {
    async fn new() -> Self {
        let rig = Rig::new().await;
        for tenant in ["a", "b"] {
            rig.tenant(tenant).await;
        }
        let modules = rig.control.seam().modules;
        let mut modules = modules.into_iter();
        let delivery = modules.find(|it| it.name() == "delivery").unwrap();
        let work = tokio::spawn(async move { delivery.run(Process::new()).await });
        let mut agents = Vec::new();
        for (name, tenant) in [("of-a", "t-a"), ("of-b", "t-b")] {
            let join = rig.cluster(name, tenant).await;
            agents.push(peer(&rig.enrolled(&join).await.1));
            let path = format!("/clusters/c-{name}");
            let labels = json!({ "annotations": { "site": "edge" } });
            rig.call(&admin(), Method::PATCH, &path, labels)
                .await
                .good();
        }
        let [own, other] = agents.try_into().unwrap();
        let deliveries = Deliveries {
            rig,
            own,
            other,
            _work: work,
        };
        // A hub that starts with connected clusters would wait for them.
        deliveries.json(&deliveries.own, DELIVERY_PATH).await;
        for name in ["c-of-a", "c-of-b"] {
            deliveries.connect(name).await;
        }
        deliveries.deploy(json!({})).await;
        deliveries
    }

    async fn connect(&self, cluster: &str) {
        let status = ClusterStatus {
            state: ClusterState::Connected,
            since: self.rig.now(),
            last_error: None,
            last_seen: None,
            last_good_probe: None,
            hub: None,
        };
        let directory = self.rig.control.seam().directory;
        let id = cluster.parse().unwrap();
        directory.report(&id, status).await.unwrap();
    }

    async fn deploy(&self, options: Value) {
        let artifact = uploaded(&self.rig, "t-a", &[("a.yaml", MANIFEST)]).await;
        let mut bundle = json!({ "tenant": "t-a", "artifact": artifact, "targets": [{ "selector": "site=edge" }] });
        for (key, value) in options.as_object().unwrap() {
            bundle[key] = value.clone();
        }
        self.rig
            .call(&admin(), Method::PUT, BUNDLE, bundle)
            .await
            .good();
    }

    /// Calls a route of agents; its answer may be no text.
    async fn fetch(
        &self,
        peer: &AgentPeer,
        path: &str,
        headers: &[(header::HeaderName, &str)],
    ) -> (StatusCode, HeaderMap, Vec<u8>) {
        let modules = self.rig.control.seam().modules;
        let routes = modules.iter().map(|it| it.agent_routes());
        let routes = routes.reduce(axum::Router::merge).unwrap();
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        let answer = routes.layer(Extension(peer.clone())).oneshot(request);
        let (head, body) = answer.await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        (head.status, head.headers, body)
    }

    async fn json(&self, peer: &AgentPeer, path: &str) -> Value {
        let (status, _, body) = self.fetch(peer, path, &[]).await;
        assert_eq!(status, 200, "{path}");
        serde_json::from_slice(&body).unwrap()
    }

    /// The entry of the bundle in the desired state of the own agent, once it has this generation.
    async fn released(&self, generation: u64) -> Value {
        let released = async || {
            let desired = self.json(&self.own, DELIVERY_PATH).await;
            let bundle = desired["bundles"][0].clone();
            (bundle["generation"] == generation).then_some(bundle)
        };
        eventually(TEST_DEADLINE, "a released generation", released)
            .await
            .unwrap()
    }

    async fn report(&self, body: Value) -> Reply {
        let request = Request::post(REPORTS_PATH).body(body.to_string()).unwrap();
        self.rig.agent(&self.own, request).await
    }

    async fn rollout_is(&self, id: &str, state: &str) -> Value {
        let path = format!("/v1/rollouts/{id}");
        let found = async || {
            let rollout = self.rig.get(&admin(), &path).await;
            let is_there = rollout.status.is_success() && rollout.json()["state"] == state;
            is_there.then(|| rollout.json())
        };
        eventually(TEST_DEADLINE, "a state of the rollout", found)
            .await
            .unwrap()
    }
}

fn ready(generation: u64) -> Value {
    json!({ "bundle": "b-shop", "state": "Ready", "generation": generation, "applied": generation, "attempt": 1, "objects": { "total": 1, "ready": 1 } })
}

#[tokio::test]
async fn agents_reach_what_their_own_desired_state_names() {
    let it = Deliveries::new().await;
    let bundle = it.released(1).await;
    let (_, headers, _) = it.fetch(&it.own, DELIVERY_PATH, &[]).await;
    let etag = headers[header::ETAG].to_str().unwrap().to_owned();
    let (status, ..) = it
        .fetch(&it.own, DELIVERY_PATH, &[(header::IF_NONE_MATCH, &etag)])
        .await;
    assert_eq!(status, StatusCode::NOT_MODIFIED);
    let directory = it.rig.control.seam().directory;
    let announced = async || directory.desired_delivery(&"c-of-a".parse().unwrap());
    let announced = eventually(TEST_DEADLINE, "an announcement", announced)
        .await
        .unwrap();
    assert_eq!(etag.trim_matches('"'), &*announced);

    let spec_path = format!("{SPECS_PATH}{}", bundle["spec"].as_str().unwrap());
    let spec = it.json(&it.own, &spec_path).await;
    assert_eq!(spec["bundle"], "b-shop");
    let artifact_path = format!("{ARTIFACTS_PATH}{}", spec["artifact"].as_str().unwrap());
    let (status, _, whole) = it.fetch(&it.own, &artifact_path, &[]).await;
    assert_eq!(status, 200);
    let end = whole.len() - 1;
    for (asked, first, last) in [
        ("bytes=7-", 7, end),
        ("bytes=3-6", 3, 6),
        ("bytes=0-999999", 0, end),
    ] {
        let (status, headers, part) = it
            .fetch(&it.own, &artifact_path, &[(header::RANGE, asked)])
            .await;
        assert_eq!(
            (status, &part[..]),
            (StatusCode::PARTIAL_CONTENT, &whole[first..=last]),
            "{asked}"
        );
        let range = format!("bytes {first}-{last}/{}", whole.len());
        assert_eq!(headers[header::CONTENT_RANGE], *range);
    }
    let past = format!("bytes={}-", whole.len());
    let (status, ..) = it
        .fetch(&it.own, &artifact_path, &[(header::RANGE, &past)])
        .await;
    assert_eq!(status, StatusCode::RANGE_NOT_SATISFIABLE);

    assert_eq!(
        it.json(&it.other, DELIVERY_PATH).await["bundles"],
        json!([])
    );
    let none = format!("{SPECS_PATH}sha256:{}", "0".repeat(64));
    let (_, _, missing) = it.fetch(&it.other, &none, &[]).await;
    for path in [&spec_path, &artifact_path] {
        let (status, _, body) = it.fetch(&it.other, path, &[]).await;
        assert_eq!(status, 404, "{path}");
        let text = String::from_utf8(body).unwrap().replace("artifact", "spec");
        assert_eq!(
            text,
            String::from_utf8(missing.clone()).unwrap(),
            "looks absent"
        );
        let (status, ..) = it.fetch(&AgentPeer::Anonymous, path, &[]).await;
        assert_eq!(status, 403, "{path}");
    }
}

#[tokio::test]
async fn reports_reach_people_and_end_the_rollout() {
    let it = Deliveries::new().await;
    it.released(1).await;
    it.rollout_is("r-shop-1", "Running").await;
    let path = "/v1/clusters/c-of-a/deployments/b-shop";
    let waiting = it.rig.get(&admin(), path).await.good();
    assert_eq!(
        (&waiting["state"], &waiting["code"]),
        (&json!("Waiting"), &json!("FL-6405"))
    );
    let cursor = it
        .rig
        .get(&admin(), "/v1/deployments/status?since=now")
        .await
        .good();
    let cursor = cursor["cursor"].as_str().unwrap().to_owned();

    let receipt = it.report(json!({ "reports": [ready(1)] })).await.good();
    let deployment = it.rig.get(&admin(), path).await.good();
    assert_eq!(deployment["state"], "Ready");
    assert_eq!(
        deployment["generation"],
        json!({ "wanted": 1, "released": 1, "applied": 1 })
    );
    let rollout = it.rollout_is("r-shop-1", "Done").await;
    assert_eq!(rollout["waves"][0]["ready"], 1);
    let feed = format!("/v1/deployments/status?since={cursor}&wait=5");
    let update = it.rig.get(&admin(), &feed).await.good();
    assert_eq!(
        (&update["snapshot"], &update["items"][0]["state"]),
        (&json!(false), &json!("Ready"))
    );

    let again = json!({ "base": receipt["etag"], "reports": [] });
    assert_eq!(it.report(again).await.good(), receipt);
    let other_base = it
        .report(json!({ "base": "x", "reports": [ready(1)] }))
        .await;
    assert_eq!(other_base.good(), json!({}));

    for list in [
        "/v1/bundles/b-shop/deployments?state=Ready&limit=1",
        "/v1/clusters/c-of-a/deployments?state=Ready",
    ] {
        let items = it.rig.get(&admin(), list).await.good()["items"].clone();
        assert_eq!(items, json!([deployment]), "{list}");
    }
    let none = it
        .rig
        .get(&admin(), "/v1/bundles/b-shop/deployments?state=Failed")
        .await;
    assert_eq!(none.good()["items"], json!([]));
    let bad = it
        .rig
        .get(&admin(), "/v1/bundles/b-shop/deployments?state=Bad")
        .await;
    assert_eq!(bad.code(), Code::Invalid);
}

#[tokio::test]
async fn people_steer_rollouts_and_deployments() {
    let it = Deliveries::new().await;
    it.released(1).await;
    let post = async |path: &str| it.rig.post(&admin(), path, Value::Null).await;
    let paused = post("/v1/rollouts/r-shop-1/pause").await.good();
    assert_eq!(paused["state"], "Paused");
    let resumed = post("/v1/rollouts/r-shop-1/resume").await.good();
    assert_eq!(resumed["state"], "Running");
    let aborted = post("/v1/rollouts/r-shop-1/abort").await.good();
    assert_eq!(aborted["state"], "Aborted");
    let refused = post("/v1/rollouts/r-shop-1/promote").await;
    assert_eq!(refused.code(), Code::RolloutVerb);
    let list = it
        .rig
        .get(&admin(), "/v1/rollouts?bundle=b-shop")
        .await
        .good();
    assert_eq!(list["items"], json!([aborted]));
    let missing = post("/v1/rollouts/r-none-1/pause").await;
    assert_eq!(missing.code(), Code::NotFound);
    let stranger = caller(Role::Admin, Some("t-b"));
    let hidden = it.rig.get(&stranger, "/v1/rollouts/r-shop-1").await;
    assert_eq!(hidden.text.replace("shop", "none"), missing.text);

    const ONE: &str = "/v1/clusters/c-of-a/deployments/b-shop";
    post(&format!("{ONE}/suspend")).await.good();
    let desired = it.json(&it.own, DELIVERY_PATH).await;
    assert_eq!(desired["bundles"][0]["suspended"], true);
    post(&format!("{ONE}/resume")).await.good();
    let targeted = post(&format!("{ONE}/remove")).await;
    assert_eq!(targeted.code(), Code::StillTargeted);

    it.report(json!({ "reports": [ready(1)] })).await.good();
    let labels = json!({ "annotations": { "site": "core" } });
    let untarget = "/clusters/c-of-a";
    let refused = it
        .rig
        .call(&admin(), Method::PATCH, untarget, labels.clone())
        .await;
    assert_eq!(refused.code(), Code::RemovalNotConfirmed);
    let confirm = refused.json()["details"]["confirm"]
        .as_str()
        .unwrap()
        .to_owned();
    let confirmed = format!("{untarget}?confirm={confirm}");
    it.rig
        .call(&admin(), Method::PATCH, &confirmed, labels)
        .await
        .good();
    let orphaned = async || {
        let shown = it.rig.get(&admin(), ONE).await.good();
        (shown["state"] == "Orphaned").then_some(())
    };
    eventually(TEST_DEADLINE, "an orphaned deployment", orphaned)
        .await
        .unwrap();
    assert_eq!(it.json(&it.own, DELIVERY_PATH).await["bundles"], json!([]));
    let removing = post(&format!("{ONE}/remove")).await.good();
    assert_eq!(removing["state"], "Removing");
    let desired = it.json(&it.own, DELIVERY_PATH).await;
    assert_eq!(
        desired["bundles"],
        json!([{ "bundle": "b-shop", "generation": 1, "remove": true }])
    );
    it.report(json!({ "gone": ["b-shop"] })).await.good();
    let gone = async || {
        let shown = it.rig.get(&admin(), ONE).await;
        (shown.status == 404).then_some(())
    };
    eventually(TEST_DEADLINE, "the end of the removal", gone)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_deleted_tenant_leaves_no_rollout_and_no_desired_state() {
    let it = Deliveries::new().await;
    it.released(1).await;
    it.report(json!({ "reports": [ready(1)] })).await.good();
    let run = json!({ "cluster": "c-of-a", "bundle": "b-shop", "kind": "sync" });
    it.rig.post(&admin(), "/v1/runs", run).await.good();
    let path = "/tenants/t-a?cascade=true";
    let tried = it.rig.delete(&admin(), path).await;
    assert!(tried.status.is_success(), "{}", tried.text);
    for path in ["/v1/bundles", "/v1/rollouts", "/v1/runs"] {
        let listed = async || {
            let listed = it.rig.get(&admin(), path).await.good();
            (listed["items"] == json!([])).then_some(())
        };
        eventually(TEST_DEADLINE, path, listed).await.unwrap();
    }
    for path in [BUNDLE, "/v1/rollouts/r-shop-1"] {
        assert_eq!(it.rig.get(&admin(), path).await.status, 404, "{path}");
    }
    let (status, _, _) = it.fetch(&it.own, DELIVERY_PATH, &[]).await;
    assert!(!status.is_success(), "{status}");
    assert_eq!(
        it.json(&it.other, DELIVERY_PATH).await["bundles"],
        json!([])
    );
}
