//! Strangers: clients without an authenticated request. Callers and agents are served beside them.

use std::time::Duration;

use bytes::Bytes;
use fairlead_api::resources::ClusterState;
use fairlead_testkit::agent::{FakeAgent, data};
use h2::{RecvStream, client::SendRequest};
use http::Request;
use tokio::time::timeout;

use crate::{
    client::{ROOT, status, until},
    rig::{HUB, Rig, TEST_DEADLINE},
};

/// Connections with more streams than strangers of one address have slots.
const MAX_CONNECTIONS: usize = 33;
const STREAMS_PER_CONNECTION: usize = 50;

/// An HTTP/2 connection whose client takes no byte of any answer's body.
async fn windowless(rig: &Rig) -> SendRequest<Bytes> {
    let tls = rig.connect(HUB, "h2").await;
    let mut builder = h2::client::Builder::new();
    builder
        .initial_window_size(0)
        .initial_max_send_streams(STREAMS_PER_CONNECTION);
    let (client, connection) = builder.handshake(tls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    client
}

fn get(path: &str, token: Option<&str>) -> Request<()> {
    let request = Request::get(format!("https://{HUB}{path}"));
    match token {
        Some(token) => request.header("authorization", format!("Bearer {token}")),
        None => request,
    }
    .body(())
    .unwrap()
}

/// Sends a request and reads the head of its answer.
async fn open(client: &SendRequest<Bytes>, request: Request<()>) -> (u16, RecvStream) {
    let mut client = client.clone().ready().await.unwrap();
    let (answer, _) = client.send_request(request, true).unwrap();
    let answer = timeout(TEST_DEADLINE, answer).await.unwrap().unwrap();
    (answer.status().as_u16(), answer.into_body())
}

#[tokio::test]
async fn windowless_streams_of_strangers_take_no_slot_of_a_caller() {
    let rig = Rig::start();
    let _agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let mut held = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        let client = windowless(&rig).await;
        let heads = (0..STREAMS_PER_CONNECTION).map(|_| open(&client, get("/v1/none", None)));
        for head in futures_util::future::join_all(heads).await {
            assert!(matches!(head.0, 404 | 429), "{}", head.0);
            held.push(head);
        }
    }
    let answer = rig.get(HUB, &format!("{ROOT}/who"), "").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let _another = FakeAgent::of(rig.access(), "c-a").await;
    // Refusals without a body hold nothing.
    until(async || rig.metric("fairlead_requests_open", &[]) <= 300.0).await;
}

#[tokio::test]
async fn stream_without_send_capacity_is_reset() {
    let rig = Rig::with(|config| config.limits.stall_timeout = Duration::from_secs(2));
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let client = windowless(&rig).await;
    let more = agent.next_stream();
    let stalled = get(&format!("{ROOT}/stream"), Some("good"));
    let (status, mut body) = open(&client, stalled).await;
    assert_eq!(status, 200);
    more.send(data("x")).await.unwrap();
    let reset = timeout(TEST_DEADLINE, body.data()).await.unwrap();
    let reset = reset.unwrap().unwrap_err();
    assert_eq!(reset.reason(), Some(h2::Reason::CANCEL), "{reset}");
    until(async || rig.metric("fairlead_stalled_resets_total", &["timeout"]) == 1.0).await;
    // The connection and its other streams live on.
    let answer = open(&client, get(&format!("{ROOT}/who"), Some("good"))).await;
    assert_eq!(answer.0, 200);
    until(async || rig.metric("fairlead_requests_open", &[]) <= 1.0).await;
}

#[tokio::test]
async fn stream_without_content_is_never_reset() {
    let rig = Rig::with(|config| config.limits.stall_timeout = Duration::from_secs(1));
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let client = windowless(&rig).await;
    let _quiet = agent.next_stream();
    let watch = get(&format!("{ROOT}/stream"), Some("good"));
    let (_, mut body) = open(&client, watch).await;
    let ended = timeout(Duration::from_secs(3), body.data()).await;
    assert!(ended.is_err(), "{ended:?}");
}

#[tokio::test]
async fn token_of_a_new_connection_has_16_kib_at_most() {
    let rig = Rig::start();
    let longest = format!("groups-{}", "x".repeat(16 * 1024 - 7));
    for (token, expected) in [(longest.clone(), 200), (format!("{longest}x"), 431)] {
        let request = format!(
            "GET /v1/whoami HTTP/1.1\r\nHost: {HUB}\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        let answer = rig.raw(HUB, request.as_bytes()).await;
        assert_eq!(answer.status, expected);
        if expected == 431 {
            assert_eq!(answer.code(), "FL-1107");
        }
        let (client, connection) = h2::client::handshake(rig.connect(HUB, "h2").await)
            .await
            .unwrap();
        tokio::spawn(connection);
        let (status, _) = open(&client, get("/v1/whoami", Some(&token))).await;
        assert_eq!(status, expected);
    }
}
