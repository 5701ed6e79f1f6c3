//! Sessions with lost links: resumption over other links, and rejected resumption.

use std::time::Duration;

use fairlead_api::{Code, resources::ClusterState};
use fairlead_dialer::{CloseReason, Redialed, SessionError};
use tokio::{io::AsyncReadExt, net::TcpStream, time::timeout};

use crate::{
    client::{head, open, read_until, status, until},
    rig::{Rig, TEST_DEADLINE},
};
use fairlead_testkit::agent::{AgentHello, FakeAgent, data, hello};

#[tokio::test]
async fn draining_hub_resumes_sessions_and_rejects_new_ones() {
    let rig = Rig::start();
    let relay = rig.relay().await;
    let agent = FakeAgent::with_hello(
        rig.access_by(relay.address().port()),
        "c-a",
        hello(1, 0, None),
    )
    .await;
    let other = FakeAgent::of(rig.access(), "c-b").await;
    status(&rig, ClusterState::Connected).await;
    let events = agent.next_stream();
    let mut watch = open(&rig, &head("GET", "/stream", "")).await;
    read_until(&mut watch, "\r\n\r\n").await;
    rig.process.start_drain();
    let ended = timeout(TEST_DEADLINE, other.session.closed())
        .await
        .unwrap();
    assert!(
        matches!(ended, SessionError::Peer(CloseReason::Draining)),
        "{ended:?}"
    );
    relay.stop();
    agent.link_lost().await;
    let again = timeout(TEST_DEADLINE, agent.redial(rig.access()))
        .await
        .unwrap();
    assert!(matches!(again.unwrap(), Redialed::Resumed { .. }));
    events.send(data("late")).await.unwrap();
    read_until(&mut watch, "late\r\n").await;
    // Any other agent is rejected, and its connection ends.
    let refused = other.redial(rig.access()).await.err().expect("a session");
    assert_eq!(refused.code, Code::Draining, "{refused}");
    let mut late = open(&rig, &head("GET", "/who", "")).await;
    let mut told = String::new();
    late.read_to_string(&mut told).await.unwrap();
    assert!(
        told.starts_with("HTTP/1.1 503 ") && told.contains("FL-1406"),
        "{told}"
    );

    drop(events);
    read_until(&mut watch, "0\r\n\r\n").await;
    assert!(
        rig.process.finish(TEST_DEADLINE).await,
        "all ends by itself"
    );
    assert!(TcpStream::connect(rig.address).await.is_err());
}

/// It has not broken a rule: without a link it could not send a hello.
#[tokio::test]
async fn hello_deadline_restarts_with_the_next_link() {
    let rig = Rig::start();
    let relay = rig.relay().await;
    let agent = FakeAgent::with_hello(
        rig.access_by(relay.address().port()),
        "c-a",
        AgentHello::Omitted,
    )
    .await;
    relay.stop();
    agent.link_lost().await;
    until(async || rig.metric("fairlead_sessions", &["down"]) == 1.0).await;
    // The hub's end was closed at the same moment; the agent detects that before its timeout.
    tokio::time::pause();
    for _ in 0..15 {
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    tokio::time::resume();
    let again = timeout(TEST_DEADLINE, agent.redial(rig.access()))
        .await
        .unwrap();
    assert!(matches!(again.unwrap(), Redialed::Resumed { .. }));
    assert_eq!(agent.send_hello(hello(1, 0, None)).await, 200);
    status(&rig, ClusterState::Connected).await;
    assert_eq!(rig.metric("fairlead_sessions_ended_total", &[]), 0.0);
    until(async || rig.metric("fairlead_sessions", &["up"]) == 1.0).await;
    assert_eq!(rig.metric("fairlead_sessions", &[]), 1.0);
    assert_eq!(rig.metric("fairlead_resumptions_total", &[]), 1.0);
}

/// It costs the hub no handshake, and counts as nobody's failure.
#[tokio::test]
async fn resumption_at_another_hub_is_declined_without_a_new_session() {
    let (rig, other) = (Rig::start(), Rig::start());
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    let asked = agent.resume_at(other.access()).await;
    assert!(matches!(asked, Ok(Redialed::Unknown { .. })));
    let ended = |labels: &[&str]| other.metric("fairlead_handshakes_total", labels);
    until(async || ended(&["session"]) == 1.0).await;
    assert_eq!(ended(&["session", "declined"]), 1.0);
}
