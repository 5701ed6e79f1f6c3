//! What all sessions of a hub hold together, when many of them have something that nobody takes.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::{
    agent::{Agent, hello},
    client::until,
    rig::{HUB, Rig},
};

/// Of all sessions together.
const LIMIT: usize = 5 << 20;
/// What a session takes of it at a time.
const SHARE: usize = 64 << 10;
/// All of these at once are more than twice the limit, beside what each session has for itself; and each is too short to wait
/// for its peer's acknowledgements.
const UPLOADS: usize = 60;
const UPLOAD: usize = 56_000;

/// A way to the hub that loses what the hub says once it is told to.
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

/// Sends a body that nobody will read. What is returned holds the connection.
async fn upload(rig: &Rig, cluster: &str) -> TcpStream {
    let mut socket = TcpStream::connect(rig.plain).await.unwrap();
    let head = format!(
        "POST /k8s/clusters/{cluster}/collect HTTP/1.1\r\nHost: {HUB}\r\nAuthorization: Bearer good\r\nContent-Length: {UPLOAD}\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(&vec![b'x'; UPLOAD]).await.unwrap();
    socket
}

/// Of what may be taken.
fn taken(rig: &Rig) -> usize {
    let taken = rig.metric("fairlead_session_memory_bytes", &[]) as usize;
    assert!(taken <= LIMIT, "{taken}");
    taken
}

#[tokio::test]
async fn sessions_whose_agents_take_nothing_stay_within_what_all_have_together() {
    let rig = Rig::with(|config| config.session_memory = LIMIT);
    let stuck = ["c-a", "c-b", "c-c", "c-d"];
    for cluster in stuck.iter().chain(&["c-e"]) {
        let mut clusters = rig.modules.clusters.lock().unwrap();
        clusters.insert(cluster.parse().unwrap(), None);
    }
    let loses = watch::Sender::new(false);
    let mut agents = Vec::new();
    for cluster in stuck {
        let port = losing(&rig, loses.subscribe()).await;
        agents.push(Agent::by(&rig, port, cluster, hello(1, 0, None)).await);
    }
    let _well = Agent::of(&rig, "c-e").await;

    loses.send_replace(true);
    let mut uploads = Vec::new();
    for _ in 0..UPLOADS {
        for cluster in stuck {
            uploads.push(upload(&rig, cluster).await);
        }
    }
    until(async || taken(&rig) > LIMIT - stuck.len() * SHARE).await;
    // Who has nothing to do with it notices nothing.
    let answer = rig.get(HUB, "/k8s/clusters/c-e/who", "").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    taken(&rig);

    drop((agents, uploads));
    until(async || taken(&rig) == 0).await;
}
