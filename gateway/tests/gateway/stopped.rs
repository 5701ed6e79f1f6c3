//! Clients that have stopped reading: each holds a window of its stream, and all together no more than the hub lets them.

use fairlead_api::resources::ClusterState;

use crate::{
    agent::{Agent, data},
    client::{ROOT, head, open, read_until, status, until},
    rig::{HUB, Rig},
};

/// Of all sessions together.
const LIMIT: usize = 1 << 20;
/// A window of 256 KiB has half of that unread at least when its reader has stopped for good: theirs are more than the limit.
const CLIENTS: usize = 12;

#[tokio::test]
async fn clients_that_stop_reading_are_joined_by_no_others_once_they_hold_all_there_is() {
    let rig = Rig::with(|config| config.session_memory = LIMIT);
    let agent = Agent::of(&rig, "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let piece: &'static str = "x".repeat(64 * 1024).leak();
    let mut stopped = Vec::new();
    for _ in 0..CLIENTS {
        let more = agent.next_stream();
        let mut client = open(&rig, &head("GET", "/stream", "")).await;
        read_until(&mut client, "\r\n\r\n").await;
        stopped.push(client);
        // Until nobody wants it any more.
        tokio::spawn(async move { while more.send(data(piece)).await.is_ok() {} });
    }
    let unread = async || rig.metric("fairlead_session_unread_bytes", &[]) as usize;
    let presence = rig.modules.presence.get().unwrap();
    let cluster = "c-a".parse().unwrap();
    // On the way to the sockets, what the hub holds goes up and down.
    until(async || unread().await >= LIMIT).await;
    until(async || presence.sessions(&cluster)[0].unread_bytes >= LIMIT).await;
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
    until(async || unread().await < LIMIT).await;
    let answer = ask().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}
