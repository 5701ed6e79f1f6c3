//! Hubs that an agent learns from its hub: links to them, a restart, dead addresses, and a stranger in the list.

use std::{fs, path::PathBuf};

use fairlead_agent::Config;
use fairlead_api::{HubUrl, headers::HUBS, headers::PROBE_PATH, hello::LinkCount};
use fairlead_dialer::CloseReason;
use fairlead_exchange::Body;
use fairlead_testkit::hub::{ConnectedAgent, FakeHub};
use http::Request;
use http_body_util::BodyExt;

use crate::rig::{Rig, get, nothing, request, send, soon, until};

/// Probe of a hub that lists these addresses.
fn probe(hubs: &[HubUrl]) -> Request<Body> {
    let list: Vec<String> = hubs.iter().map(ToString::to_string).collect();
    let probe = request("GET", PROBE_PATH).header(HUBS, list.join(","));
    probe.body(nothing()).unwrap()
}

async fn report(hub: &ConnectedAgent, hubs: &[HubUrl]) {
    assert_eq!(send(&hub.exchanges, probe(hubs)).await.status(), 200);
}

async fn assert_serves(hub: &ConnectedAgent) {
    assert_eq!(send(&hub.exchanges, get("/version")).await.status(), 200);
}

/// A hub with the rig's CA that names itself to agents.
async fn listed(rig: &Rig) -> FakeHub {
    let hub = rig.another_hub().await;
    list_itself(&hub);
    hub
}

fn list_itself(hub: &FakeHub) {
    *hub.script.listed_as.lock().unwrap() = Some(hub.url());
}

fn hellos(hub: &FakeHub) -> Vec<u8> {
    let hellos = hub.script.hellos.lock().unwrap();
    hellos.iter().map(|hello| hello.link.index()).collect()
}

fn automatic(rig: &Rig) -> Config {
    Config {
        links: None,
        ..rig.config()
    }
}

fn stored_list(rig: &Rig) -> PathBuf {
    rig.state().join("hubs.json")
}

fn is_stored(rig: &Rig, hub: &HubUrl) -> bool {
    let text = fs::read_to_string(stored_list(rig));
    text.is_ok_and(|text| text.contains(&hub.to_string()))
}

#[tokio::test]
async fn second_link_goes_to_the_learned_hub_and_ends_with_it() {
    let rig = Rig::new().await;
    list_itself(&rig.hub);
    let other = listed(&rig).await;
    let agent = rig.start(automatic(&rig));
    let first = rig.hub.next().await;
    assert_eq!(agent.gauge("fairlead_agent_links_desired"), 1.0);
    report(&first, &[rig.hub.url(), other.url()]).await;
    let second = other.next().await;
    for hub in [&first, &second] {
        assert_serves(hub).await;
    }
    assert_eq!((hellos(&rig.hub), hellos(&other)), (vec![0], vec![1]));
    assert_eq!(agent.gauge("fairlead_agent_links_desired"), 2.0);
    // The other hub restarts: the link returns to it, and never to the hub of the first link.
    second.session.close(CloseReason::Draining);
    assert_serves(&other.next().await).await;
    assert_eq!((hellos(&rig.hub), hellos(&other)), (vec![0], vec![1, 1]));
}

#[tokio::test]
async fn explicit_number_of_links_wins() {
    let rig = Rig::new().await;
    list_itself(&rig.hub);
    let other = listed(&rig).await;
    let agent = rig.start(rig.config());
    let first = rig.hub.next().await;
    let hubs = [rig.hub.url(), other.url()];
    report(&first, &hubs).await;
    until(|| is_stored(&rig, &other.url())).await;
    assert_eq!(agent.gauge("fairlead_agent_links_desired"), 1.0);
    assert_eq!(other.script.relay.connections_taken(), 0);
}

#[tokio::test]
async fn learned_hub_is_reached_after_a_restart_without_the_hub_of_the_join_string() {
    let rig = Rig::new().await;
    list_itself(&rig.hub);
    let other = listed(&rig).await;
    let agent = rig.start(rig.config());
    let first = rig.hub.next().await;
    report(&first, &[rig.hub.url(), other.url()]).await;
    until(|| is_stored(&rig, &other.url())).await;
    drop(agent);
    rig.hub.disconnect();
    let agent = rig.start(rig.config());
    assert_serves(&other.next().await).await;
    // The present list counts, and a stored one of another join string does not.
    drop(agent);
    let text = fs::read_to_string(stored_list(&rig)).unwrap();
    let foreign = text.replace("sha256:", "sha256:x");
    assert_ne!(foreign, text);
    fs::write(stored_list(&rig), foreign).unwrap();
    let dials = rig.hub.script.relay.connections_taken();
    let _agent = rig.start(rig.config());
    until(|| rig.hub.script.relay.connections_taken() > dials + 2).await;
    assert_eq!(hellos(&other).len(), 1);
}

#[tokio::test]
async fn hub_of_the_join_string_is_the_fallback_for_dead_addresses() {
    let rig = Rig::new().await;
    let (dead, silent) = (rig.another_address().await, rig.another_address().await);
    let agent = rig.start(rig.config());
    let first = rig.hub.next().await;
    let learned = [dead.url(), silent.url()];
    dead.stop();
    silent.stop();
    report(&first, &learned).await;
    until(|| is_stored(&rig, &dead.url())).await;
    first.session.close(CloseReason::Draining);
    let again = rig.hub.next().await;
    assert_serves(&again).await;
    drop(agent);
    let _agent = rig.start(rig.config());
    assert_serves(&rig.hub.next().await).await;
}

#[tokio::test]
async fn session_moves_from_a_hub_that_left_the_list_and_its_streams_continue() {
    let rig = Rig::new().await;
    let former = "https://former.example".parse().unwrap();
    *rig.hub.script.listed_as.lock().unwrap() = Some(former);
    let other = listed(&rig).await;
    let agent = rig.start(automatic(&rig));
    let first = rig.hub.next().await;
    until(|| agent.process.is_ready()).await;
    let watch = send(&first.exchanges, get("/watch?watch=true")).await;
    report(&first, &[other.url()]).await;
    let second = other.next().await;
    assert_serves(&second).await;
    let mut watch = watch.into_body();
    rig.api.script.events.send_replace("not cut".to_owned());
    let frame = soon(watch.frame()).await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "not cut");
    rig.api.script.events.send_replace("end".to_owned());
    assert!(soon(watch.frame()).await.is_none());
    soon(first.session.closed()).await;
    assert_serves(&second).await;
}

#[tokio::test]
async fn listed_stranger_gets_no_hello_even_with_a_valid_outer_certificate() {
    let rig = Rig::new().await;
    list_itself(&rig.hub);
    let stranger = FakeHub::start(&rig.dir.path().join("stranger")).await;
    // The site trusts the stranger's CA for the outer TLS, so only the inner one is left.
    let ca = rig.dir.path().join("site-ca.pem");
    fs::write(&ca, stranger.authority.certificate_pem()).unwrap();
    let config = Config {
        links: Some(LinkCount::TWO),
        ca_file: Some(ca),
        ..rig.config()
    };
    let _agent = rig.start(config);
    let (first, second) = (rig.hub.next().await, rig.hub.next().await);
    report(&first, &[rig.hub.url(), stranger.url()]).await;
    // The second link belongs to the stranger by the list.
    let dials = || stranger.script.relay.connections_taken();
    until(|| dials() >= 2).await;
    for hub in [&first, &second] {
        assert_serves(hub).await;
    }
    assert!(hellos(&stranger).is_empty());
    assert!(stranger.script.enrolment_keys.lock().unwrap().is_empty());
    assert!(stranger.script.renewal_keys.lock().unwrap().is_empty());
}

#[tokio::test]
async fn site_operator_turns_learning_off() {
    let rig = Rig::new().await;
    let other = listed(&rig).await;
    let mut config = automatic(&rig);
    config.learn_hubs = false;
    let agent = rig.start(config);
    let first = rig.hub.next().await;
    report(&first, &[rig.hub.url(), other.url()]).await;
    first.session.close(CloseReason::Draining);
    let again = rig.hub.next().await;
    assert_serves(&again).await;
    assert_eq!(agent.gauge("fairlead_agent_links_desired"), 1.0);
    assert!(!stored_list(&rig).exists());
    assert_eq!(other.script.relay.connections_taken(), 0);
}
