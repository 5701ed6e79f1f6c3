//! Revoked identities, and deleted clusters: their sessions end.

use std::time::Duration;

use fairlead_api::{ClusterId, Code, resources::ClusterState};
use fairlead_dialer::{CloseReason, SessionError};
use tokio::time::{Instant, timeout};

use crate::{
    client::{ROOT, head, open, read_until, rest, status},
    rig::{HUB, PausedClock, Rig, TEST_DEADLINE},
};
use fairlead_testkit::agent::{AgentHello, FakeAgent};

/// Waits for the end of an agent's session, which the hub closes for this reason.
async fn ends_with(agent: &FakeAgent, reason: CloseReason) {
    let ended = timeout(TEST_DEADLINE, agent.session.closed()).await;
    let ended = ended.unwrap();
    assert!(
        matches!(ended, SessionError::Peer(given) if given == reason),
        "{ended:?}"
    );
}

#[tokio::test]
async fn deleting_a_cluster_ends_its_session_at_once() {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let _events = agent.next_stream();
    let mut watch = open(&rig, &head("GET", "/stream", "")).await;
    read_until(&mut watch, "\r\n\r\n").await;

    let cluster: ClusterId = "c-a".parse().unwrap();
    rig.modules.clusters.lock().unwrap().remove(&cluster);
    let _clock = PausedClock::start();
    let begun = Instant::now();
    rig.modules.revocations.send(cluster).unwrap();
    let ended = agent.session.closed().await;
    assert_eq!(begun.elapsed(), Duration::ZERO, "it waits for nothing");
    assert!(
        matches!(ended, SessionError::Peer(CloseReason::Deleted)),
        "{ended:?}"
    );
    assert!(
        rest(&mut watch).await.1.is_err(),
        "its running requests are reset"
    );
    // The agent does not come back.
    let again = FakeAgent::with_hello(rig.access(), "c-a", AgentHello::Omitted).await;
    ends_with(&again, CloseReason::Deleted).await;
}

#[tokio::test]
async fn moved_cluster_is_lost_until_it_is_enrolled() {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    *rig.modules.moves_after.lock().unwrap() = Some(0);
    rig.modules
        .revocations
        .send("c-a".parse().unwrap())
        .unwrap();
    let lost = status(&rig, ClusterState::Lost).await;
    let error = lost.last_error.unwrap();
    assert_eq!(error.code, Code::IdentityRevoked);
    assert!(error.cause.contains("another tenant"), "{}", error.cause);
    ends_with(&agent, CloseReason::Revoked).await;
}

#[tokio::test]
async fn newer_key_ends_the_sessions_of_the_old_one_only() {
    let rig = Rig::start();
    let old = FakeAgent::of(rig.access(), "c-a").await;
    let other = FakeAgent::of(rig.access(), "c-b").await;
    let new = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let key = *rig.modules.keys.lock().unwrap().last().unwrap();
    *rig.modules.enrolled_key.lock().unwrap() = Some(key);
    rig.modules
        .revocations
        .send("c-a".parse().unwrap())
        .unwrap();
    ends_with(&old, CloseReason::Revoked).await;
    let answer = rig.get(HUB, &format!("{ROOT}/headers"), "").await;
    assert_eq!(answer.status, 200, "the new key's session serves");
    assert!(new.session.is_up());
    assert!(other.session.is_up(), "another cluster is not concerned");

    let again = FakeAgent::with_hello(rig.access(), "c-a", AgentHello::Omitted).await;
    ends_with(&again, CloseReason::Revoked).await;
}

#[tokio::test]
async fn missed_move_still_ends_the_session() {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    // More revocations than the channel keeps, all before anybody receives one.
    *rig.modules.moves_after.lock().unwrap() = Some(0);
    for cluster in std::iter::once("c-a".to_owned()).chain((0..50).map(|n| format!("c-{n}"))) {
        rig.modules
            .revocations
            .send(cluster.parse().unwrap())
            .unwrap();
    }
    ends_with(&agent, CloseReason::Revoked).await;
    status(&rig, ClusterState::Lost).await;
}

#[tokio::test]
async fn session_that_begins_during_a_move_ends() {
    let rig = Rig::start();
    *rig.modules.moves_after.lock().unwrap() = Some(1);
    let agent = FakeAgent::with_hello(rig.access(), "c-a", AgentHello::Omitted).await;
    ends_with(&agent, CloseReason::Revoked).await;
    assert_eq!(*rig.modules.knocked.borrow(), 2, "it was asked once more");
}
