//! Configuration desired by the hub, within the limits of the site operator.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use fairlead_api::config::{APPLIED_REVISION_HEADER, DESIRED_REVISION_HEADER};
use fairlead_exchange::Body;
use http::{Request, Response};
use serde_json::{Value, json};
use tokio::time::Instant;

use fairlead_testkit::hub::ConnectedAgent;

use crate::rig::{PausedClock, Rig, nothing, send, soon, until};

fn configure(rig: &Rig, revision: &str, document: Value) {
    *rig.hub.script.configuration.lock().unwrap() = Some((revision.to_owned(), document));
}

/// Probes until the agent reports this revision as applied.
async fn applied(connected: &ConnectedAgent, revision: &str) {
    let reported = async { while probe(connected, revision).await.as_deref() != Some(revision) {} };
    soon(reported).await;
}

/// Sends a probe as the hub does. Returns the reported revision.
async fn probe(connected: &ConnectedAgent, desired: &str) -> Option<String> {
    let answer = answer_to_probe(connected, desired).await;
    assert_eq!(answer.status(), 200);
    reported(&answer)
}

async fn answer_to_probe(connected: &ConnectedAgent, desired: &str) -> Response<Body> {
    let probe =
        Request::get(fairlead_api::headers::PROBE_PATH).header(DESIRED_REVISION_HEADER, desired);
    let probe = probe
        .header("host", "kubernetes.default.svc")
        .body(nothing())
        .unwrap();
    send(&connected.exchanges, probe).await
}

fn reported(answer: &Response<Body>) -> Option<String> {
    let revision = answer.headers().get(APPLIED_REVISION_HEADER)?;
    Some(revision.to_str().unwrap().to_owned())
}

/// Revisions that the agent knew at its requests for the configuration.
fn known_revisions(rig: &Rig) -> Vec<Option<String>> {
    rig.hub.script.known_revisions.borrow().clone()
}

/// Whether a CONNECT succeeds.
async fn connects(connected: &ConnectedAgent, target: &str) -> bool {
    let request = Request::connect(target)
        .header("host", target)
        .body(nothing())
        .unwrap();
    let answer = soon(connected.exchanges.send(request)).await.unwrap();
    matches!(answer, fairlead_exchange::Answer::Upgraded(..))
}

#[tokio::test]
async fn newest_configuration_is_applied_and_reported() {
    let rig = Rig::new().await;
    configure(&rig, "one", json!({ "agentVersion": "0.2.0" }));
    let (_agent, connected) = rig.connected().await;
    applied(&connected, "one").await;

    configure(
        &rig,
        "two",
        json!({ "facts": { "disabledCollectors": ["nodes"] } }),
    );
    probe(&connected, "two").await;
    applied(&connected, "two").await;
    let requests = [None, Some("one".to_owned())];
    assert_eq!(known_revisions(&rig), requests, "one request for each");
}

/// With several hubs, the probe of one hub may name a revision that another hub does not know yet.
#[tokio::test]
async fn named_revision_is_fetched_again_after_an_older_answer() {
    let rig = Rig::new().await;
    configure(&rig, "one", json!({}));
    let (_agent, connected) = rig.connected().await;
    applied(&connected, "one").await;
    let mut requests = rig.hub.script.known_revisions.subscribe();
    let before = requests.borrow_and_update().len();
    probe(&connected, "two").await;
    drop(requests.wait_for(|all| all.len() > before).await.unwrap());
    configure(&rig, "two", json!({}));
    applied(&connected, "two").await;
}

#[tokio::test]
async fn applied_revision_is_reported_while_the_api_server_is_not_ready() {
    let rig = Rig::new().await;
    configure(&rig, "one", json!({}));
    let (_agent, connected) = rig.connected().await;
    applied(&connected, "one").await;
    rig.api.script.unready.store(true, SeqCst);
    let answer = answer_to_probe(&connected, "one").await;
    assert_eq!(answer.headers()["fairlead-code"], "FL-1502");
    assert_eq!(reported(&answer).as_deref(), Some("one"));
}

#[tokio::test]
async fn other_revision_on_a_probe_is_fetched_at_once() {
    let rig = Rig::new().await;
    configure(&rig, "one", json!({}));
    let (_agent, connected) = rig.connected().await;
    applied(&connected, "one").await;
    configure(&rig, "two", json!({ "agentVersion": "0.2.0" }));
    let mut requests = rig.hub.script.known_revisions.subscribe();
    let before = requests.borrow_and_update().len();
    let clock = PausedClock::start();
    let named = Instant::now();
    probe(&connected, "two").await;
    drop(requests.wait_for(|all| all.len() > before).await.unwrap());
    assert_eq!(named.elapsed(), Duration::ZERO, "without a delay");
    drop(clock);
    applied(&connected, "two").await;
}

#[tokio::test]
async fn hub_narrows_the_site_operators_rules_and_never_widens_them() {
    let rig = Rig::new().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let open = listener.local_addr().unwrap().to_string();
    let mut config = rig.config();
    config.allow_connect = vec![open.clone()];
    let _agent = rig.start(config);
    let connected = rig.hub.next().await;
    assert!(connects(&connected, &open).await);

    let api = format!("127.0.0.1:{}", rig.api.port());
    configure(&rig, "one", json!({ "allowConnect": [api] }));
    // The agent backs off after the missing route; the revision on a probe ends that at once.
    probe(&connected, "one").await;
    applied(&connected, "one").await;
    assert!(!connects(&connected, &open).await);
    assert!(!connects(&connected, &api).await);
}

#[tokio::test]
async fn collector_disabled_by_the_hub_removes_its_facts() {
    let rig = Rig::new().await;
    let version = (200, json!({ "major": "1", "minor": "37" }));
    let answers = &rig.api.script.answers;
    answers
        .lock()
        .unwrap()
        .insert("/version".to_owned(), version);
    let mut config = rig.config();
    config.facts_every = Some(Duration::from_secs(1));
    let _agent = rig.start(config);
    let connected = rig.hub.next().await;
    let has_version = || {
        let reports = rig.hub.script.reports.lock().unwrap();
        let facts = reports.iter().flat_map(|report| &report.facts);
        let mut named = facts.filter(|(name, _)| name.as_str() == "kubernetesVersion");
        named.next_back().map(|(_, fact)| fact.is_some())
    };
    until(|| has_version() == Some(true)).await;
    configure(
        &rig,
        "one",
        json!({ "facts": { "disabledCollectors": ["version"] } }),
    );
    probe(&connected, "one").await;
    until(|| has_version() == Some(false)).await;
}
