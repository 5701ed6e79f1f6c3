//! Clients that have stopped reading: each uses a window of its stream, and all together at most the memory budget.

use std::time::Duration;

use fairlead_api::resources::ClusterState;
use tokio::io::AsyncWriteExt;

use crate::{
    client::{ROOT, head, open, read_until, status, until},
    rig::{HUB, Rig},
};
use fairlead_testkit::{
    agent::{FakeAgent, data},
    wait::eventually,
};

/// Budget of all sessions, in bytes.
const BUDGET_BYTES: usize = 1 << 20;
/// Time for megabytes through a tunnel, on a busy machine.
const TRANSFER_DEADLINE: Duration = Duration::from_secs(120);
/// A stopped reader leaves at least half of a 256 KiB window unread, so these exceed the budget.
const CLIENT_COUNT: usize = 12;

#[tokio::test]
async fn requests_are_rejected_while_stalled_clients_fill_the_budget() {
    let rig = Rig::with(|config| config.limits.session_memory = BUDGET_BYTES);
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let piece: &'static str = "x".repeat(64 * 1024).leak();
    let mut stopped = Vec::new();
    for _ in 0..CLIENT_COUNT {
        let more = agent.next_stream();
        let mut client = open(&rig, &head("GET", "/stream", "")).await;
        read_until(&mut client, "\r\n\r\n").await;
        stopped.push(client);
        // Until the receiver is gone.
        tokio::spawn(async move { while more.send(data(piece)).await.is_ok() {} });
    }
    let unread = async || rig.metric("fairlead_session_unread_bytes", &[]) as usize;
    let presence = rig.modules.presence.get().unwrap();
    let cluster = "c-a".parse().unwrap();
    // The buffered bytes vary while data moves to the sockets.
    let is_full = async || (unread().await >= BUDGET_BYTES).then_some(());
    eventually(TRANSFER_DEADLINE, "a full budget", is_full)
        .await
        .unwrap();
    until(async || presence.sessions(&cluster)[0].unread_bytes >= BUDGET_BYTES).await;
    let ask = async || rig.get(HUB, &format!("{ROOT}/headers"), "").await;
    until(async || {
        let answer = ask().await;
        let refused = answer.status == 429;
        assert_eq!(
            refused,
            answer.code() == "FL-1407" && answer.text().contains("--session-memory")
        );
        refused
    })
    .await;

    drop(stopped);
    // Data that the agent sent before the resets may fill the budget once more.
    let is_served = async || (ask().await.status == 200).then_some(());
    eventually(TRANSFER_DEADLINE, "space in the budget", is_served)
        .await
        .unwrap();
}

#[tokio::test]
async fn pressure_on_memory_ends_tcp_connections_whose_clients_take_nothing() {
    let rig = Rig::with(|config| config.limits.session_memory = BUDGET_BYTES);
    let _agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let request = format!(
        "GET /v1/clusters/c-a/tcp/db.shop:5432 HTTP/1.1\r\nHost: {HUB}\r\nAuthorization: Bearer good\r\n\
         Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v1.tcp.fairlead.io\r\n\r\n"
    );
    // A binary message of 32 KiB, masked with zeros.
    let mut frame = vec![0x82, 0xfe, 0x80, 0];
    frame.resize(8 + 32 * 1024, 0);
    for _ in 0..CLIENT_COUNT {
        let mut client = open(&rig, &request).await;
        read_until(&mut client, "\r\n\r\n").await;
        let frame = frame.clone();
        // The echo is not read, and the connection stays open until the hub ends it.
        tokio::spawn(async move { while client.write_all(&frame).await.is_ok() {} });
    }
    let open_count = async || rig.metric("fairlead_upgrades_open", &[]) as usize;
    let is_ended = async || (open_count().await < CLIENT_COUNT).then_some(());
    eventually(TRANSFER_DEADLINE, "an end", is_ended)
        .await
        .unwrap();
    let resets = rig.metric("fairlead_stalled_resets_total", &["memory"]);
    assert!(resets >= 1.0, "{resets}");
}
