//! Several hubs, each with its own sessions: what runs on one stays with that one, while another serves.

use std::sync::atomic::Ordering::SeqCst;

use fairlead_dialer::{Body, CloseReason, LinkState, Resumable, Session, SessionError};
use http_body_util::BodyExt;

use fairlead_testkit::hub::{ConnectedAgent, FakeHub};

use crate::rig::{Agent, Rig, get, last_probe, send, soon, until};

/// Two hubs that keep their sessions, an agent that knows both and has its session with the first, and a watch on that.
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
async fn what_runs_waits_for_its_hub_while_another_one_serves() {
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
    // One session is enough again as soon as nothing runs on the one that waited.
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

/// Neither takes the other's place, whichever of the hubs comes back first.
#[tokio::test]
async fn each_session_goes_back_to_its_own_hub() {
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
    // Several tries of a session that would be new there.
    let taken = two.other.script.connections_taken.load(SeqCst);
    until(|| two.other.script.connections_taken.load(SeqCst) > taken + 3).await;
    two.other.reconnect();
    is(&second.session, true).await;
    serves(&second).await;
    assert_eq!((hellos(&two.rig.hub), hellos(&two.other)), (1, 1));
}

#[tokio::test]
async fn what_waits_for_a_hub_that_has_forgotten_it_is_over() {
    let two = Two::start().await;
    two.rig.hub.disconnect();
    let second = two.other.next().await;
    serves(&second).await;
    *two.rig.hub.script.resumable.lock().unwrap() = Some(Resumable::default());
    let taken = two.rig.hub.script.connections_taken.load(SeqCst);
    two.rig.hub.reconnect();
    until(|| two.rig.hub.script.connections_taken.load(SeqCst) > taken).await;
    serves(&second).await;
    assert_eq!((hellos(&two.rig.hub), hellos(&two.other)), (1, 1));
    // That one was asked for the session that it had, and for nothing else. From here on it may have a new one.
    two.other.disconnect();
    let third = two.rig.hub.next().await;
    serves(&third).await;
}

#[tokio::test]
async fn what_is_left_at_a_hub_that_is_about_to_go_goes_on_when_its_link_breaks() {
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
    // When nothing runs there any more, it is not kept for the hub's sake.
    two.rig.api.script.events.send_replace("end".to_owned());
    assert!(soon(two.watch.frame()).await.is_none());
    let ended = soon(two.first.session.closed()).await;
    assert!(
        matches!(ended, SessionError::Peer(CloseReason::Done)),
        "{ended:?}"
    );
}

#[tokio::test]
async fn what_runs_at_a_hub_that_is_about_to_go_goes_on_there_while_no_other_answers() {
    let mut two = Two::start().await;
    two.other.disconnect();
    let told = send(&two.first.exchanges, last_probe()).await;
    assert_eq!(told.status(), 200);
    until(|| two.other.script.connections_taken.load(SeqCst) > 0).await;
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
