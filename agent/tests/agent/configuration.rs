//! Configuration desired by the hub, within the limits of the site operator.

use std::time::Duration;

use fairlead_api::config::DESIRED_REVISION_HEADER;
use http::Request;
use serde_json::{Value, json};
use tokio::time::Instant;

use fairlead_testkit::hub::ConnectedAgent;

use crate::rig::{PausedClock, Rig, nothing, send, soon, until};

fn configure(rig: &Rig, revision: &str, document: Value) {
    *rig.hub.script.configuration.lock().unwrap() = Some((revision.to_owned(), document));
}

/// Waits until the agent has reported this revision as applied.
async fn applied(rig: &Rig, revision: &str) {
    let mut all = rig.hub.script.applied_revisions.subscribe();
    let said = |all: &Vec<Option<String>>| {
        let last = all.last().cloned().flatten();
        last.as_deref() == Some(revision)
    };
    drop(soon(all.wait_for(said)).await.unwrap());
}

/// Sends a probe as the hub does.
async fn probe(connected: &ConnectedAgent, wanted: &str) {
    let probe =
        Request::get(fairlead_api::headers::PROBE_PATH).header(DESIRED_REVISION_HEADER, wanted);
    let probe = probe
        .header("host", "kubernetes.default.svc")
        .body(nothing())
        .unwrap();
    assert_eq!(send(&connected.exchanges, probe).await.status(), 200);
}

/// Whether a CONNECT succeeds.
async fn connects(connected: &ConnectedAgent, target: &str) -> bool {
    let request = Request::connect(target)
        .header("host", target)
        .body(nothing())
        .unwrap();
    let answer = soon(connected.exchanges.send(request)).await.unwrap();
    matches!(answer, fairlead_dialer::Answer::Upgraded(..))
}

#[tokio::test]
async fn newest_configuration_is_applied_and_reported() {
    let rig = Rig::new().await;
    configure(&rig, "one", json!({ "agentVersion": "0.2.0" }));
    let (_agent, connected) = rig.connected().await;
    applied(&rig, "one").await;
    assert_eq!(rig.hub.script.applied_revisions.borrow()[0], None);

    configure(
        &rig,
        "two",
        json!({ "facts": { "disabledCollectors": ["nodes"] } }),
    );
    probe(&connected, "two").await;
    applied(&rig, "two").await;
    let asked = rig.hub.script.applied_revisions.borrow().len();
    probe(&connected, "two").await;
    assert_eq!(
        rig.hub.script.applied_revisions.borrow().len(),
        asked,
        "the revision is known"
    );
}

#[tokio::test]
async fn other_revision_on_a_probe_is_fetched_at_once() {
    let rig = Rig::new().await;
    configure(&rig, "one", json!({}));
    let (_agent, connected) = rig.connected().await;
    applied(&rig, "one").await;
    configure(&rig, "two", json!({ "agentVersion": "0.2.0" }));
    let mut asked = rig.hub.script.applied_revisions.subscribe();
    let before = asked.borrow_and_update().len();
    let clock = PausedClock::start();
    let named = Instant::now();
    probe(&connected, "two").await;
    drop(asked.wait_for(|all| all.len() > before).await.unwrap());
    assert_eq!(named.elapsed(), Duration::ZERO, "without a delay");
    drop(clock);
    applied(&rig, "two").await;
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
    applied(&rig, "one").await;
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
    let told = || {
        let reports = rig.hub.script.reports.lock().unwrap();
        let facts = reports.iter().flat_map(|report| &report.facts);
        let mut named = facts.filter(|(name, _)| name.as_str() == "kubernetesVersion");
        named.next_back().map(|(_, fact)| fact.is_some())
    };
    until(|| told() == Some(true)).await;
    configure(
        &rig,
        "one",
        json!({ "facts": { "disabledCollectors": ["version"] } }),
    );
    probe(&connected, "one").await;
    until(|| told() == Some(false)).await;
}
