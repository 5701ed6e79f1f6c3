//! Several links and several agents of one identity, and their hellos.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use fairlead_api::{
    Code,
    hello::{Hello, LinkCount},
};
use fairlead_dialer::{CloseReason, LinkState, Resumable};
use time::OffsetDateTime;

use crate::rig::{Rig, get, last_probe, send, soon, until};

fn hellos(rig: &Rig) -> Vec<Hello> {
    rig.hub.script.hellos.lock().unwrap().clone()
}

#[tokio::test]
async fn hello_precedes_serving() {
    let rig = Rig::new().await;
    let (agent, first) = rig.connected().await;
    until(|| agent.process.is_ready()).await;
    first.session.close(CloseReason::Draining);
    rig.hub.next().await;
    until(|| hellos(&rig).len() == 2).await;
    let sent = hellos(&rig);
    assert_eq!(sent[0], sent[1], "the same process, the same link");
    let uid = sent[0].cluster_uid.as_ref().unwrap();
    assert_eq!(uid.as_str(), "uid-of-this-cluster");
    assert_eq!(sent[0].agent_version, "0.0.0-test");
    drop(agent);
    let _again = rig.start(rig.config());
    rig.hub.next().await;
    until(|| hellos(&rig).len() == 3).await;
    assert_ne!(hellos(&rig)[2].instance, sent[0].instance);
}

/// The hello is repeated over the next link, without waiting for a lost answer.
#[tokio::test]
async fn link_lost_during_the_hello_is_reconnected_at_once() {
    let rig = Rig::new().await;
    *rig.hub.script.resumable.lock().unwrap() = Some(Resumable::default());
    rig.hub.script.disconnect_at_hello.store(true, SeqCst);
    let (agent, hub) = rig.connected().await;
    until(|| !rig.hub.script.relay.is_reachable()).await;
    rig.hub.reconnect();
    until(|| agent.process.is_ready()).await;
    assert_eq!(send(&hub.exchanges, get("/version")).await.status(), 200);
    assert_eq!(hellos(&rig).len(), 2);
}

#[tokio::test]
async fn session_lost_during_the_hello_is_replaced_at_once() {
    let rig = Rig::new().await;
    *rig.hub.script.resumable.lock().unwrap() = Some(Resumable::default());
    rig.hub.script.disconnect_at_hello.store(true, SeqCst);
    let (agent, _forgotten) = rig.connected().await;
    until(|| !rig.hub.script.relay.is_reachable()).await;
    *rig.hub.script.resumable.lock().unwrap() = Some(Resumable::default());
    rig.hub.reconnect();
    let hub = rig.hub.next().await;
    until(|| agent.process.is_ready()).await;
    assert_eq!(send(&hub.exchanges, get("/version")).await.status(), 200);
    assert_eq!(hellos(&rig).len(), 2);
}

#[tokio::test]
async fn late_cluster_uid_is_sent_over_the_same_session() {
    let rig = Rig::new().await;
    *rig.api.script.uid.lock().unwrap() = None;
    let (agent, hub) = rig.connected().await;
    until(|| agent.process.is_ready()).await;
    assert_eq!(hellos(&rig)[0].cluster_uid, None);
    *rig.api.script.uid.lock().unwrap() = Some("late".to_owned());
    until(|| hellos(&rig).len() == 2).await;
    assert_eq!(
        hellos(&rig)[1].cluster_uid.as_ref().unwrap().as_str(),
        "late"
    );
    assert_eq!(send(&hub.exchanges, get("/version")).await.status(), 200);
    assert_eq!(rig.hub.script.enrolment_keys.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn clone_never_serves_and_reconnects_slowly() {
    let rig = Rig::new().await;
    *rig.hub.script.hello_error.lock().unwrap() = Some(Code::IdentityCloned);
    // Its join string is spent, as the original's is.
    let agent = rig.start(rig.config());
    rig.hub.next().await;
    *rig.hub.script.enrolment_error.lock().unwrap() = Some(Code::BootstrapSpent);
    until(|| rig.hub.script.enrolment_keys.lock().unwrap().len() == 2).await;
    assert!(!agent.process.is_ready() && !agent.running.is_finished());
    // The hub accepts the agent, and it serves.
    *rig.hub.script.hello_error.lock().unwrap() = None;
    rig.hub.next().await;
    until(|| agent.process.is_ready()).await;
}

#[tokio::test]
async fn agent_is_ready_while_one_of_its_links_has_a_session() {
    let rig = Rig::new().await;
    let mut config = rig.config();
    config.links = Some(LinkCount::TWO);
    let agent = rig.start(config);
    let (one, two) = (rig.hub.next().await, rig.hub.next().await);
    until(|| hellos(&rig).len() == 2).await;
    let sent = hellos(&rig);
    assert_eq!(sent[0].instance, sent[1].instance);
    let mut links = [sent[0].link.index(), sent[1].link.index()];
    links.sort_unstable();
    assert_eq!(links, [0, 1]);
    assert_eq!(
        rig.hub.script.enrolment_keys.lock().unwrap().len(),
        1,
        "one identity"
    );
    for hub in [&one, &two] {
        assert_eq!(send(&hub.exchanges, get("/version")).await.status(), 200);
    }
    until(|| agent.process.is_ready()).await;
    one.session.close(CloseReason::Replaced);
    soon(one.session.closed()).await;
    assert_eq!(send(&two.exchanges, get("/version")).await.status(), 200);
    assert!(agent.process.is_ready());
    two.session.close(CloseReason::Replaced);
    until(|| !agent.process.is_ready()).await;
}

#[tokio::test]
async fn links_prefer_different_hubs_and_avoid_a_dead_one() {
    let rig = Rig::new().await;
    let other = rig.another_address().await;
    let mut config = rig.config();
    config.links = Some(LinkCount::TWO);
    config.hubs = vec![rig.hub.url(), other.url()];
    let _agent = rig.start(config);
    let (_one, _two) = (rig.hub.next().await, rig.hub.next().await);
    assert_eq!(
        other.connections_taken(),
        1,
        "one enrolment and one link by the first, one link by the other"
    );
    other.stop();
    // The first link comes back through the first hub.
    rig.hub.next().await;
}

/// Each link renews for its own session; the last certificate is stored.
#[tokio::test]
async fn every_link_renews_its_own_session() {
    let rig = Rig::new().await;
    *rig.hub.script.certificate_age.lock().unwrap() = Duration::from_secs(20 * 3600);
    // Wait until both sessions exist with the same certificate.
    rig.hub.script.failing_renewals.store(usize::MAX, SeqCst);
    let mut config = rig.config();
    config.links = Some(LinkCount::TWO);
    let _agent = rig.start(config);
    let (_one, _two) = (rig.hub.next().await, rig.hub.next().await);
    rig.hub.script.failing_renewals.store(0, SeqCst);
    until(|| rig.hub.script.renewals.load(SeqCst) == 2).await;
    let kept = || std::fs::read_to_string(rig.state().join("identity.json")).unwrap();
    let soon = OffsetDateTime::now_utc() + Duration::from_secs(20 * 3600);
    let soon = soon.format(&time::format_description::well_known::Rfc3339);
    let soon = soon.unwrap();
    until(|| {
        let kept: serde_json::Value = serde_json::from_str(&kept()).unwrap();
        kept["notAfter"].as_str().unwrap() > soon.as_str()
    })
    .await;
}

#[tokio::test]
async fn agent_moves_to_another_hub_before_its_own_stops() {
    let rig = Rig::new().await;
    *rig.hub.script.resumable.lock().unwrap() = Some(Resumable::default());
    let other = rig.another_address().await;
    let mut config = rig.config();
    config.hubs = vec![rig.hub.url(), other.url()];
    let agent = rig.start(config);
    let old = rig.hub.next().await;
    let watch = send(&old.exchanges, get("/watch?watch=true")).await;
    assert_eq!(other.connections_taken(), 0);
    assert_eq!(send(&old.exchanges, last_probe()).await.status(), 200);
    let new = rig.hub.next().await;
    assert_eq!(other.connections_taken(), 1);
    assert_eq!(*old.session.link().borrow(), LinkState::Up);
    assert_eq!(send(&new.exchanges, get("/version")).await.status(), 200);
    // Running requests continue there until the old session ends.
    rig.api.script.events.send_replace("still there".to_owned());
    let mut watch = watch.into_body();
    let frame = soon(http_body_util::BodyExt::frame(&mut watch)).await;
    assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), "still there");
    old.session.close(CloseReason::Draining);
    soon(old.session.closed()).await;
    assert!(agent.process.is_ready());
    assert_eq!(send(&new.exchanges, get("/version")).await.status(), 200);
}

#[tokio::test]
async fn agent_without_another_hub_stays_until_its_own_stops() {
    let rig = Rig::new().await;
    let (agent, hub) = rig.connected().await;
    assert_eq!(send(&hub.exchanges, last_probe()).await.status(), 200);
    assert_eq!(send(&hub.exchanges, get("/version")).await.status(), 200);
    until(|| agent.process.is_ready()).await;
    hub.session.close(CloseReason::Draining);
    rig.hub.next().await;
}
