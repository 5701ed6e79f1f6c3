//! Memory budget of all sessions, with many uploads that no API server reads.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::{
    client::until,
    rig::{HUB, Rig},
};
use fairlead_testkit::agent::{FakeAgent, hello};

/// Budget of all sessions, in bytes.
const BUDGET_BYTES: usize = 5 << 20;
/// Reservation of a session at a time, in bytes.
const RESERVATION_BYTES: usize = 64 << 10;
/// Together more than twice the budget, beside the sessions' own memory. Each upload is too short to wait for its
/// peer's acknowledgements.
const UPLOAD_COUNT: usize = 60;
const UPLOAD_BYTES: usize = 56_000;

/// A path to the hub that drops the hub's bytes while `loses` is true.
async fn losing(rig: &Rig, loses: watch::Receiver<bool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, hub) = (listener.local_addr().unwrap().port(), rig.address);
    tokio::spawn(async move {
        let (agent, _) = listener.accept().await.unwrap();
        let (mut from_agent, mut to_agent) = agent.into_split();
        let (mut from_hub, mut to_hub) = TcpStream::connect(hub).await.unwrap().into_split();
        let up = tokio::spawn(async move { copy(&mut from_agent, &mut to_hub).await });
        let mut said = vec![0; 64 * 1024];
        while let Ok(size @ 1..) = from_hub.read(&mut said).await {
            if !*loses.borrow() && to_agent.write_all(&said[..size]).await.is_err() {
                break;
            }
        }
        up.abort();
    });
    port
}

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
    let rig = Rig::with(|config| config.session_memory = BUDGET_BYTES);
    let stuck = ["c-a", "c-b", "c-c", "c-d"];
    for cluster in stuck.iter().chain(&["c-e"]) {
        let mut clusters = rig.modules.clusters.lock().unwrap();
        clusters.insert(cluster.parse().unwrap(), None);
    }
    let loses = watch::Sender::new(false);
    let mut agents = Vec::new();
    for cluster in stuck {
        let port = losing(&rig, loses.subscribe()).await;
        agents.push(FakeAgent::with_hello(rig.access_by(port), cluster, hello(1, 0, None)).await);
    }
    let _well = FakeAgent::of(rig.access(), "c-e").await;

    loses.send_replace(true);
    let mut uploads = Vec::new();
    for _ in 0..UPLOAD_COUNT {
        for cluster in stuck {
            uploads.push(upload(&rig, cluster).await);
        }
    }
    until(async || taken(&rig) > BUDGET_BYTES - stuck.len() * RESERVATION_BYTES).await;
    // Other clusters are not affected.
    let answer = rig.get(HUB, "/k8s/clusters/c-e/who", "").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    taken(&rig);

    drop((agents, uploads));
    until(async || taken(&rig) == 0).await;
}
