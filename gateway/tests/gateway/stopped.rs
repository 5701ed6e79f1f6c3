//! Clients that have stopped reading: each holds a window of its stream, and all together no more than the hub lets them.

use std::time::Duration;

use fairlead_api::resources::State;
use tokio::time::{sleep, timeout};

use crate::{
    agent::{Agent, data},
    client::{ROOT, head, open, read_until, status},
    rig::{HUB, PATIENCE, Rig},
};

/// Of all sessions together.
const LIMIT: usize = 1 << 20;
/// What their windows hold is more than that.
const CLIENTS: usize = 6;

/// Looks until the hub holds what it should.
async fn until(rig: &Rig, holds: impl Fn(usize) -> bool) {
    let looking = async {
        while !holds(rig.metric("fairlead_session_unread_bytes", &[]) as usize) {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, looking).await.expect("it takes too long");
}

#[tokio::test]
async fn clients_that_stop_reading_are_joined_by_no_others_once_they_hold_all_there_is() {
    let rig = Rig::with(|config| config.session_memory = LIMIT);
    let agent = Agent::of(&rig, "c-a").await;
    status(&rig, State::Connected).await;
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
    until(&rig, |unread| unread >= LIMIT).await;
    let presence = rig.modules.presence.get().unwrap();
    let sessions = presence.sessions(&"c-a".parse().unwrap());
    assert!(sessions.first().unwrap().unread_bytes >= LIMIT);
    let refused = rig.get(HUB, &format!("{ROOT}/headers"), "").await;
    assert_eq!((refused.status, refused.code()), (429, "FL-1407"));
    assert!(
        refused.text().contains("--session-memory"),
        "{}",
        refused.text()
    );

    drop(stopped);
    until(&rig, |unread| unread < LIMIT).await;
    let answer = rig.get(HUB, &format!("{ROOT}/headers"), "").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}
