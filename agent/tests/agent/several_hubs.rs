//! Several hubs, each with its own sessions. Requests stay with the hub of their session while another hub
//! serves.

use fairlead_dialer::{Body, CloseReason, LinkState, Resumable, Session, SessionError};
use http_body_util::BodyExt;

use fairlead_testkit::hub::{ConnectedAgent, FakeHub};

use crate::rig::{Agent, Rig, get, last_probe, send, soon, until};

/// Two hubs that keep their sessions, an agent that knows both with a session at the first, and a watch on it.
struct Two {
    rig: Rig,
    other: FakeHub,
    agent: Agent,
    first: ConnectedAgent,
    watch: Body,
}

impl Two {
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
        Two {
            watch: watch.into_body(),
            rig,
            other,
            agent,
            first,
        }
    }

    async fn says(&mut self, event: &str) {
        self.rig.api.script.events.send_replace(event.to_owned());
        let frame = soon(self.watch.frame()).await;
        assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), event);
    }
}

async fn is(session: &Session, up: bool) {
    let mut link = session.link();
    let changed = link.wait_for(|link| (*link == LinkState::Up) == up);
    soon(changed).await.unwrap();
}

fn hellos(hub: &FakeHub) -> usize {
    hub.script.hellos.lock().unwrap().len()
}

async fn serves(hub: &ConnectedAgent) {
    assert_eq!(send(&hub.exchanges, get("/version")).await.status(), 200);
}

#[tokio::test]
async fn parked_session_waits_for_its_hub_while_another_serves() {
    let mut two = Two::start().await;
    two.rig.hub.disconnect();
    let second = two.other.next().await;
    serves(&second).await;
    is(&two.first.session, false).await;
    until(|| two.agent.process.is_ready()).await;

    two.rig.hub.reconnect();
    is(&two.first.session, true).await;
    two.says("still there").await;
    serves(&two.first).await;
    // With nothing running on the parked session, one session is enough.
    two.rig.api.script.events.send_replace("end".to_owned());
    assert!(soon(two.watch.frame()).await.is_none());
    let ended = soon(two.first.session.closed()).await;
    assert!(
        matches!(ended, SessionError::Peer(CloseReason::Done)),
        "{ended:?}"
    );
    serves(&second).await;
    assert!(two.agent.process.is_ready());
    assert_eq!((hellos(&two.rig.hub), hellos(&two.other)), (1, 1));
}

/// Neither session replaces the other, in any order of the hubs' return.
#[tokio::test]
async fn each_session_returns_to_its_own_hub() {
    let mut two = Two::start().await;
    two.rig.hub.disconnect();
    let second = two.other.next().await;
    serves(&second).await;
    two.other.disconnect();
    is(&second.session, false).await;
    until(|| !two.agent.process.is_ready()).await;
    two.rig.hub.reconnect();
    is(&two.first.session, true).await;
    two.says("still there").await;
    // Several rejected attempts of a new session there.
    let taken = two.other.script.relay.connections_taken();
    until(|| two.other.script.relay.connections_taken() > taken + 3).await;
    two.other.reconnect();
    is(&second.session, true).await;
    serves(&second).await;
    assert_eq!((hellos(&two.rig.hub), hellos(&two.other)), (1, 1));
}

#[tokio::test]
async fn parked_session_lost_by_its_hub_ends() {
    let two = Two::start().await;
    two.rig.hub.disconnect();
    let second = two.other.next().await;
    serves(&second).await;
    *two.rig.hub.script.resumable.lock().unwrap() = Some(Resumable::default());
    let taken = two.rig.hub.script.relay.connections_taken();
    two.rig.hub.reconnect();
    until(|| two.rig.hub.script.relay.connections_taken() > taken).await;
    serves(&second).await;
    assert_eq!((hellos(&two.rig.hub), hellos(&two.other)), (1, 1));
    // The link of that session tried to resume it and requested no new one. From here on it may have a new one.
    two.other.disconnect();
    let third = two.rig.hub.next().await;
    serves(&third).await;
}

#[tokio::test]
async fn parked_session_at_a_draining_hub_survives_a_broken_link() {
    let mut two = Two::start().await;
    let told = send(&two.first.exchanges, last_probe()).await;
    assert_eq!(told.status(), 200);
    let second = two.other.next().await;
    serves(&second).await;
    two.says("not moved").await;
    two.rig.hub.disconnect();
    is(&two.first.session, false).await;
    two.rig.hub.reconnect();
    is(&two.first.session, true).await;
    two.says("still there").await;
    serves(&second).await;
    assert_eq!((hellos(&two.rig.hub), hellos(&two.other)), (1, 1));
    // With nothing running on the parked session, it is closed.
    two.rig.api.script.events.send_replace("end".to_owned());
    assert!(soon(two.watch.frame()).await.is_none());
    let ended = soon(two.first.session.closed()).await;
    assert!(
        matches!(ended, SessionError::Peer(CloseReason::Done)),
        "{ended:?}"
    );
}

#[tokio::test]
async fn requests_continue_at_a_draining_hub_without_another_hub() {
    let mut two = Two::start().await;
    two.other.disconnect();
    let told = send(&two.first.exchanges, last_probe()).await;
    assert_eq!(told.status(), 200);
    until(|| two.other.script.relay.connections_taken() > 0).await;
    two.rig.hub.disconnect();
    is(&two.first.session, false).await;
    two.rig.hub.reconnect();
    is(&two.first.session, true).await;
    two.says("still there").await;
    two.other.reconnect();
    let second = two.other.next().await;
    serves(&second).await;
    assert_eq!((hellos(&two.rig.hub), hellos(&two.other)), (1, 1));
}
