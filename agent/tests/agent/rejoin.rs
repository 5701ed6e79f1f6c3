//! A join string other than the one of the stored identity.

use fairlead_agent::{Config, IdentityLocation};
use fairlead_api::{Code, JoinString};
use fairlead_dialer::{CloseReason, SessionError};

use fairlead_testkit::hub::FakeHub;

use crate::rig::{Rig, soon, until};

const STORES: [fn(&Rig) -> IdentityLocation; 2] = [
    |rig| IdentityLocation::Dir(rig.state()),
    |_| IdentityLocation::Secret { namespace: None },
];

fn join(hub: &FakeHub, token: &str) -> Option<JoinString> {
    Some(JoinString {
        hubs: vec![hub.url()],
        ca_pins: hub.authority.pin().into(),
        token: token.into(),
    })
}

/// A rig, and a hub of another authority.
async fn two_hubs() -> (Rig, FakeHub) {
    let rig = Rig::new().await;
    let other = FakeHub::start(&rig.dir.path().join("other")).await;
    (rig, other)
}

fn enrolled(hub: &FakeHub) -> usize {
    hub.script.enrolment_keys.lock().unwrap().len()
}

/// Configuration of an agent that has enrolled with the rig's hub and has ended.
async fn joined(rig: &Rig, state: &IdentityLocation) -> Config {
    let mut config = rig.config();
    config.state = state.clone();
    let _agent = rig.start(config.clone());
    rig.hub.next().await;
    config
}

#[tokio::test]
async fn join_string_of_another_hub_replaces_the_identity() {
    for (state, dead) in STORES.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let (rig, other) = two_hubs().await;
        let state = state(&rig);
        let mut config = joined(&rig, &state).await;
        if dead {
            rig.hub.disconnect();
        }
        config.join = join(&other, "bootstrap");
        let agent = rig.start(config.clone());
        other.next().await;
        until(|| agent.process.is_ready()).await;
        assert_eq!(enrolled(&other), 1, "{state:?}, dead: {dead}");
        drop(agent);

        // The same join string again: it is spent, and no new identity is requested.
        *other.script.enrolment_error.lock().unwrap() = Some(Code::BootstrapSpent);
        let _agent = rig.start(config);
        other.next().await;
        assert_eq!((enrolled(&rig.hub), enrolled(&other)), (1, 1), "{state:?}");
    }
}

#[tokio::test]
async fn join_string_with_another_token_replaces_the_identity() {
    for state in STORES {
        let rig = Rig::new().await;
        let mut config = joined(&rig, &state(&rig)).await;
        config.join = join(&rig.hub, "token of another cluster");
        let _agent = rig.start(config);
        rig.hub.next().await;
        assert_eq!(enrolled(&rig.hub), 2);
    }
}

#[tokio::test]
async fn spent_join_string_leaves_the_identity_in_use() {
    for state in STORES {
        let (rig, other) = two_hubs().await;
        let mut config = joined(&rig, &state(&rig)).await;
        *other.script.enrolment_error.lock().unwrap() = Some(Code::BootstrapSpent);
        config.join = join(&other, "bootstrap");
        let agent = rig.start(config.clone());
        rig.hub.next().await;
        until(|| agent.process.is_ready()).await;
        rig.hub.cut();
        rig.hub.next().await;
        assert_eq!(enrolled(&other), 1, "a final rejection is not retried");
        drop(agent);
        config.join = None;
        let _agent = rig.start(config);
        rig.hub.next().await;
    }
}

/// The old identity serves until the new one exists.
#[tokio::test]
async fn join_string_of_an_absent_hub_takes_effect_on_its_return() {
    let (rig, other) = two_hubs().await;
    let mut config = joined(&rig, &IdentityLocation::Dir(rig.state())).await;
    other.disconnect();
    config.join = join(&other, "bootstrap");
    let agent = rig.start(config);
    let old = rig.hub.next().await;
    until(|| agent.process.is_ready()).await;
    assert!(other.script.relay.connections_taken() > 0);
    other.reconnect();
    other.next().await;
    let ended = soon(old.session.closed()).await;
    assert!(matches!(ended, SessionError::Peer(CloseReason::Done)));
}
