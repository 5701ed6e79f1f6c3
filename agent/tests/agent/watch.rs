//! Changes of the API server between two probes.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use fairlead_api::headers::{CHECK_INTERVAL, PROBE_PATH, WATCH_SECONDS};
use fairlead_testkit::{clock::pass, hub::ConnectedAgent};
use http::Request;
use serde_json::json;

use crate::rig::{PausedClock, Rig, nothing, send};

/// Probes as a hub does that probes again only after so many seconds.
async fn probe(connected: &ConnectedAgent, seconds: Option<u64>) -> u16 {
    let mut probe = Request::get(PROBE_PATH).header("host", "kubernetes.default.svc");
    if let Some(seconds) = seconds {
        probe = probe.header(WATCH_SECONDS, seconds);
    }
    let answer = send(&connected.exchanges, probe.body(nothing()).unwrap()).await;
    answer.status().as_u16()
}

fn changes(rig: &Rig) -> usize {
    *rig.hub.script.changes.borrow()
}

#[tokio::test]
async fn unready_api_server_is_reported_once_between_two_probes() {
    let rig = Rig::new().await;
    let (_agent, connected) = rig.connected().await;
    assert_eq!(probe(&connected, Some(30)).await, 200);
    let clock = PausedClock::start();
    pass(3 * CHECK_INTERVAL, || changes(&rig) > 0).await;
    assert_eq!(changes(&rig), 0, "it is ready");
    rig.api.script.unready.store(true, SeqCst);
    let took = pass(2 * CHECK_INTERVAL, || changes(&rig) > 0).await;
    assert_eq!(changes(&rig), 1, "after {took:?}");
    pass(2 * CHECK_INTERVAL, || changes(&rig) > 1).await;
    assert_eq!(changes(&rig), 1, "the hub probes now");
    drop(clock);
}

#[tokio::test]
async fn nothing_is_reported_to_a_hub_that_probes_itself() {
    let rig = Rig::new().await;
    let (_agent, connected) = rig.connected().await;
    assert_eq!(probe(&connected, Some(30)).await, 200);
    assert_eq!(probe(&connected, None).await, 200);
    rig.api.script.unready.store(true, SeqCst);
    assert_ne!(probe(&connected, Some(30)).await, 200);
    let clock = PausedClock::start();
    pass(4 * CHECK_INTERVAL, || changes(&rig) > 0).await;
    assert_eq!(changes(&rig), 0);
    drop(clock);
}

#[tokio::test]
async fn applied_configuration_is_reported_between_two_probes() {
    let rig = Rig::new().await;
    let (_agent, connected) = rig.connected().await;
    assert_eq!(probe(&connected, Some(30)).await, 200);
    let document = ("one".to_owned(), json!({}));
    *rig.hub.script.configuration.lock().unwrap() = Some(document);
    let _clock = PausedClock::start();
    pass(Duration::from_secs(30), || changes(&rig) > 0).await;
    assert_eq!(changes(&rig), 1);
}
