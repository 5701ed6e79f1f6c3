//! Agents that break the rules: each violation is counted by its rule, and other agents are not affected.

use fairlead_api::resources::ClusterState;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    client::{ROOT, head, open, read_until, status, until},
    rig::{HUB, Rig},
};
use fairlead_testkit::{agent::FakeAgent, clock::TEST_DEADLINE};
use tokio::time::timeout;

/// Waits for this count; a stream is reset before it is counted.
async fn violations(rig: &Rig, count: usize) {
    let counted = || rig.metric("fairlead_violations_total", &["http"]);
    until(async || counted() >= count as f64).await;
}

#[tokio::test]
async fn invalid_request_of_an_agent_resets_its_stream() {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    for (number, wrong) in [
        "GET /agent/v1/hello HTTP/1.1\r\nHost: a\r\nHost : b\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let mut stream = agent.session.open().await.unwrap();
        stream.write_all(wrong.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        assert!(stream.read_to_end(&mut answer).await.is_err());
        violations(&rig, number + 1).await;
    }
    let answer = rig.get(HUB, &format!("{ROOT}/headers"), "").await;
    assert_eq!(answer.status, 200, "the session goes on");
}

#[tokio::test]
async fn invalid_answer_of_an_agent_fails_one_request() {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let _other = FakeAgent::of(rig.access(), "c-b").await;
    let garbled = agent.answer_garbage();
    // Streams opened before are served well: each is used by a request that does not end.
    let mut held = Vec::new();
    let refused = loop {
        let more = agent.next_stream();
        let mut client = open(&rig, &head("GET", "/stream", "")).await;
        let answer = read_until(&mut client, "\r\n\r\n").await;
        if answer.contains("FL-1404") {
            break answer;
        }
        held.push((more, client));
    };
    assert!(refused.starts_with("HTTP/1.1 502"), "{refused}");
    violations(&rig, 1).await;
    garbled.abort();
    let answer = rig.get(HUB, "/k8s/clusters/c-b/headers", "").await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn agent_that_loses_its_place_gets_the_reason() {
    // A CLOSE of the link with reason 9, in a WebSocket frame.
    const BUSY: [u8; 5] = [0x82, 3, 5, 0, 9];
    let rig = Rig::with(|config| config.limits.max_session_handshakes = 1);
    let mut idle = rig.connect(HUB, "http/1.1").await;
    let upgrade = format!(
        "GET /connect HTTP/1.1\r\nHost: {HUB}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: fairlead.v1\r\n\r\n"
    );
    idle.write_all(upgrade.as_bytes()).await.unwrap();
    let head = read_until(&mut idle, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    let _next = FakeAgent::of(rig.access(), "c-a").await;
    let mut reason = [0; BUSY.len()];
    let read = timeout(TEST_DEADLINE, idle.read_exact(&mut reason)).await;
    read.expect("a reason").unwrap();
    assert_eq!(reason, BUSY);
    until(async || rig.metric("fairlead_handshakes_total", &["session", "evicted"]) == 1.0).await;
    status(&rig, ClusterState::Connected).await;
}
