//! Memory budget of all sessions, with many uploads that no API server reads.

use std::time::Duration;

use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    client::until,
    rig::{HUB, Rig},
};
use fairlead_testkit::{
    agent::{FakeAgent, hello},
    wait::eventually,
};

/// Budget of all sessions, in bytes.
const BUDGET_BYTES: usize = 5 << 20;
/// Reservation of a session at a time, in bytes.
const RESERVATION_BYTES: usize = 64 << 10;
/// Together more than twice the budget, beside the sessions' own memory. Each upload is too short to wait for its
/// peer's acknowledgements.
const UPLOAD_COUNT: usize = 60;
const UPLOAD_BYTES: usize = 56_000;
/// Time for megabytes into tunnels, on a busy machine.
const TRANSFER_DEADLINE: Duration = Duration::from_secs(120);

/// Sends a body that is never read. The returned connection keeps it going.
async fn upload(rig: &Rig, cluster: &str) -> TcpStream {
    let mut socket = TcpStream::connect(rig.plain).await.unwrap();
    let head = format!(
        "POST /k8s/clusters/{cluster}/collect HTTP/1.1\r\nHost: {HUB}\r\nAuthorization: Bearer good\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(&vec![b'x'; UPLOAD_BYTES]).await.unwrap();
    socket
}

/// Bytes reserved from the budget.
fn taken(rig: &Rig) -> usize {
    let taken = rig.metric("fairlead_session_memory_bytes", &[]) as usize;
    assert!(taken <= BUDGET_BYTES, "{taken}");
    taken
}

#[tokio::test]
async fn sessions_of_stalled_agents_stay_within_the_memory_budget() {
    let rig = Rig::with(|config| config.limits.session_memory = BUDGET_BYTES);
    let stuck = ["c-a", "c-b", "c-c", "c-d"];
    for cluster in stuck.iter().chain(&["c-e"]) {
        let mut clusters = rig.modules.clusters.lock().unwrap();
        clusters.insert(cluster.parse().unwrap(), None);
    }
    let mut agents = Vec::new();
    let mut relays = Vec::new();
    for cluster in stuck {
        let relay = rig.relay().await;
        agents.push(
            FakeAgent::with_hello(
                rig.access_by(relay.address().port()),
                cluster,
                hello(1, 0, None),
            )
            .await,
        );
        relays.push(relay);
    }
    let _well = FakeAgent::of(rig.access(), "c-e").await;

    for relay in &relays {
        relay.control.discard_output();
    }
    let mut uploads = Vec::new();
    for _ in 0..UPLOAD_COUNT {
        for cluster in stuck {
            uploads.push(upload(&rig, cluster).await);
        }
    }
    let is_full = async || {
        let is_full = taken(&rig) > BUDGET_BYTES - stuck.len() * RESERVATION_BYTES;
        is_full.then_some(())
    };
    eventually(TRANSFER_DEADLINE, "a full budget", is_full)
        .await
        .unwrap();
    // Other clusters are not affected.
    let answer = rig.get(HUB, "/k8s/clusters/c-e/who", "").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    taken(&rig);

    drop((agents, uploads));
    until(async || taken(&rig) == 0).await;
}
