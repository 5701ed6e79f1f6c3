//! Several hubs, each with its own sessions. Requests stay with the hub of their session while another hub
//! serves.

use fairlead_dialer::{CloseReason, LinkState, Resumable, Session, SessionError};
use fairlead_exchange::Body;
use http_body_util::BodyExt;

use fairlead_testkit::hub::{ConnectedAgent, FakeHub};

use crate::rig::{Agent, Rig, get, last_probe, send, soon, until};

/// Two hubs that keep their sessions, an agent that knows both with a session at the first, and a watch on it.
struct TwoHubs {
    rig: Rig,
    other: FakeHub,
    agent: Agent,
    first: ConnectedAgent,
    watch: Body,
}

impl TwoHubs {
    async fn start() -> Self {
        let rig = Rig::new().await;
        let other = rig.another_hub().await;
        for hub in [&rig.hub, &other] {
            *hub.script.resumable.lock().unwrap() = Some(Resumable::default());
        }
        let mut config = rig.config();
        config.hubs = vec![rig.hub.url(), other.url()];
        let agent = rig.start(config);
        let first = rig.hub.next().await;
        until(|| agent.process.is_ready()).await;
        let watch = send(&first.exchanges, get("/watch?watch=true")).await;
        TwoHubs {
            watch: watch.into_body(),
            rig,
            other,
            agent,
            first,
        }
    }

    async fn expect_event(&mut self, event: &str) {
        self.rig.api.script.events.send_replace(event.to_owned());
        let frame = soon(self.watch.frame()).await;
        assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), event);
    }
}

async fn wait_for_link(session: &Session, up: bool) {
    let mut link = session.link();
    let changed = link.wait_for(|link| (*link == LinkState::Up) == up);
    soon(changed).await.unwrap();
}

fn hellos(hub: &FakeHub) -> usize {
    hub.script.hellos.lock().unwrap().len()
}

async fn assert_serves(hub: &ConnectedAgent) {
    assert_eq!(send(&hub.exchanges, get("/version")).await.status(), 200);
}

#[tokio::test]
async fn parked_session_waits_for_its_hub_while_another_serves() {
    let mut hubs = TwoHubs::start().await;
    hubs.rig.hub.disconnect();
    let second = hubs.other.next().await;
    assert_serves(&second).await;
    wait_for_link(&hubs.first.session, false).await;
    until(|| hubs.agent.process.is_ready()).await;

    hubs.rig.hub.reconnect();
    wait_for_link(&hubs.first.session, true).await;
    hubs.expect_event("still there").await;
    assert_serves(&hubs.first).await;
    // With nothing running on the parked session, one session is enough.
    hubs.rig.api.script.events.send_replace("end".to_owned());
    assert!(soon(hubs.watch.frame()).await.is_none());
    let ended = soon(hubs.first.session.closed()).await;
    assert!(
        matches!(ended, SessionError::Peer(CloseReason::Done)),
        "{ended:?}"
    );
    assert_serves(&second).await;
    assert!(hubs.agent.process.is_ready());
    assert_eq!((hellos(&hubs.rig.hub), hellos(&hubs.other)), (1, 1));
}

/// Neither session replaces the other, in any order of the hubs' return.
#[tokio::test]
async fn each_session_returns_to_its_own_hub() {
    let mut hubs = TwoHubs::start().await;
    hubs.rig.hub.disconnect();
    let second = hubs.other.next().await;
    assert_serves(&second).await;
    hubs.other.disconnect();
    wait_for_link(&second.session, false).await;
    until(|| !hubs.agent.process.is_ready()).await;
    hubs.rig.hub.reconnect();
    wait_for_link(&hubs.first.session, true).await;
    hubs.expect_event("still there").await;
    // Several rejected attempts of a new session there.
    let dials = hubs.other.script.relay.connections_taken();
    until(|| hubs.other.script.relay.connections_taken() > dials + 3).await;
    hubs.other.reconnect();
    wait_for_link(&second.session, true).await;
    assert_serves(&second).await;
    assert_eq!((hellos(&hubs.rig.hub), hellos(&hubs.other)), (1, 1));
}

#[tokio::test]
async fn parked_session_lost_by_its_hub_ends() {
    let hubs = TwoHubs::start().await;
    hubs.rig.hub.disconnect();
    let second = hubs.other.next().await;
    assert_serves(&second).await;
    *hubs.rig.hub.script.resumable.lock().unwrap() = Some(Resumable::default());
    let dials = hubs.rig.hub.script.relay.connections_taken();
    hubs.rig.hub.reconnect();
    until(|| hubs.rig.hub.script.relay.connections_taken() > dials).await;
    assert_serves(&second).await;
    assert_eq!((hellos(&hubs.rig.hub), hellos(&hubs.other)), (1, 1));
    // The link of that session tried to resume it and requested no new one. From here on it may have a new one.
    hubs.other.disconnect();
    let third = hubs.rig.hub.next().await;
    assert_serves(&third).await;
}

#[tokio::test]
async fn parked_session_at_a_draining_hub_survives_a_broken_link() {
    let mut hubs = TwoHubs::start().await;
    let answer = send(&hubs.first.exchanges, last_probe()).await;
    assert_eq!(answer.status(), 200);
    let second = hubs.other.next().await;
    assert_serves(&second).await;
    hubs.expect_event("not moved").await;
    hubs.rig.hub.disconnect();
    wait_for_link(&hubs.first.session, false).await;
    hubs.rig.hub.reconnect();
    wait_for_link(&hubs.first.session, true).await;
    hubs.expect_event("still there").await;
    assert_serves(&second).await;
    assert_eq!((hellos(&hubs.rig.hub), hellos(&hubs.other)), (1, 1));
    // With nothing running on the parked session, it is closed.
    hubs.rig.api.script.events.send_replace("end".to_owned());
    assert!(soon(hubs.watch.frame()).await.is_none());
    let ended = soon(hubs.first.session.closed()).await;
    assert!(
        matches!(ended, SessionError::Peer(CloseReason::Done)),
        "{ended:?}"
    );
}

#[tokio::test]
async fn requests_continue_at_a_draining_hub_without_another_hub() {
    let mut hubs = TwoHubs::start().await;
    hubs.other.disconnect();
    let answer = send(&hubs.first.exchanges, last_probe()).await;
    assert_eq!(answer.status(), 200);
    until(|| hubs.other.script.relay.connections_taken() > 0).await;
    hubs.rig.hub.disconnect();
    wait_for_link(&hubs.first.session, false).await;
    hubs.rig.hub.reconnect();
    wait_for_link(&hubs.first.session, true).await;
    hubs.expect_event("still there").await;
    hubs.other.reconnect();
    let second = hubs.other.next().await;
    assert_serves(&second).await;
    assert_eq!((hellos(&hubs.rig.hub), hellos(&hubs.other)), (1, 1));
}
