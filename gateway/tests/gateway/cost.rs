//! Load for a profiler: requests of some clients through the gateway and a fake agent, in one thread.
//!
//! The instructions of a request are the difference of two runs under callgrind, divided by the difference of their
//! numbers of requests.

use std::str::FromStr;

use fairlead_api::resources::ClusterState;
use fairlead_testkit::agent::FakeAgent;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
};

use crate::{
    client::{head, status},
    rig::{HUB, Rig},
};

#[allow(
    clippy::disallowed_methods,
    reason = "a profiler starts this test with the numbers in its environment"
)]
fn number(name: &str, default: usize) -> usize {
    let text = std::env::var(name).unwrap_or_default();
    usize::from_str(&text).unwrap_or(default)
}

/// Sends requests one after the other over one connection.
async fn client(rig: &Rig, requests: usize) {
    let mut tls = rig.connect(HUB, "http/1.1").await;
    let request = head("GET", "/headers", "User-Agent: load\r\nAccept: */*\r\n");
    let mut block = vec![0; 16 * 1024];
    for _ in 0..requests {
        tls.write_all(request.as_bytes()).await.unwrap();
        tls.flush().await.unwrap();
        let mut length = 0;
        loop {
            length += tls.read(&mut block[length..]).await.unwrap();
            let read = std::str::from_utf8(&block[..length]).unwrap();
            assert!(read.starts_with("HTTP/1.1 200"), "{read}");
            let Some((head, body)) = read.split_once("\r\n\r\n") else {
                continue;
            };
            let mut fields = head.lines().filter_map(|line| line.split_once(": "));
            let wanted = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
            let wanted = wanted.map(|(_, value)| value.parse::<usize>().unwrap());
            match wanted {
                Some(wanted) if body.len() >= wanted => break,
                None if body.ends_with("0\r\n\r\n") => break,
                _ => {}
            }
        }
    }
}

#[tokio::test]
#[ignore = "load for a profiler, with COST_CLIENTS and COST_REQUESTS in the environment"]
async fn requests_for_a_profiler() {
    let rig = std::sync::Arc::new(Rig::start());
    let _agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let clients = number("COST_CLIENTS", 16);
    let requests = number("COST_REQUESTS", 1600) / clients;
    let mut running = JoinSet::new();
    for _ in 0..clients {
        let rig = std::sync::Arc::clone(&rig);
        running.spawn(async move { client(&rig, requests).await });
    }
    running.join_all().await;
}
