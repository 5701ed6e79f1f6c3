//! Requests to and over a hub that drains, beside another one.

use std::time::Duration;

use fairlead_api::resources::ClusterState;
use fairlead_testkit::agent::{FakeAgent, data};
use tokio::io::AsyncWriteExt;

use crate::{
    client::{head, open, read_until, status, until},
    forwarded::{get, hubs, hubs_with, introduce},
    rig::{HUB, RawAnswer, Rig, TEST_DEADLINE},
};

#[tokio::test]
async fn draining_hub_keeps_forwarded_streams_and_ends_by_itself() {
    let (one, two, agent) = hubs().await;
    let steps = agent.next_stream();
    let mut watch = open(&one, &head("GET", "/stream", "")).await;
    read_until(&mut watch, "\r\n\r\n").await;
    two.process.start_drain();
    let late = get(&one, "/events?watch=true").await;
    assert_eq!((late.status, late.code()), (503, "FL-1409"));
    steps.send(data("still here")).await.unwrap();
    read_until(&mut watch, "still here\r\n").await;
    drop(steps);
    read_until(&mut watch, "0\r\n\r\n").await;
    assert!(two.process.finish(TEST_DEADLINE).await, "it ends by itself");
    assert!(
        one.process.finish(TEST_DEADLINE).await,
        "so does the first hub"
    );
}

/// A delay that no test reaches.
const LONG_DELAY: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn draining_hub_serves_new_requests_over_the_others_until_the_end_of_the_delay() {
    let (one, two, at_two) = hubs_with(Rig::with_drain_delay("one", LONG_DELAY)).await;
    let at_one = FakeAgent::of(one.access(), "c-a").await;
    status(&one, ClusterState::Connected).await;
    let mut kept = open(&one, &head("GET", "/before", "")).await;
    assert_eq!(RawAnswer::read(&mut kept).await.unwrap().status, 200);
    at_one.saw("GET /before").await;

    one.process.start_drain();
    let health = one.get(HUB, "/healthz", "").await;
    assert_eq!((health.status, health.code()), (503, "FL-1406"));
    // The agent leaves this hub, so its session at the other one is preferred.
    assert_eq!(get(&one, "/who").await.status, 200);
    at_two.saw("GET /who").await;
    let body = "Content-Length: 4\r\n";
    let post = format!("{}body", head("POST", "/upload", body));
    assert_eq!(one.raw(HUB, post.as_bytes()).await.status, 200);
    at_two.saw("POST /upload").await;
    // Connections stay open: a balancer may have a request on the way.
    let again = head("GET", "/again", "");
    kept.write_all(again.as_bytes()).await.unwrap();
    kept.flush().await.unwrap();
    assert_eq!(RawAnswer::read(&mut kept).await.unwrap().status, 200);

    // Without a session elsewhere the own one serves.
    introduce(&one, &[("two", two.address.port())], &[]);
    assert_eq!(get(&one, "/last").await.status, 200);
    at_one.saw("GET /last").await;
}

#[tokio::test]
async fn draining_hub_refuses_new_requests_after_the_delay() {
    let (one, _two, _at_two) = hubs_with(Rig::with_drain_delay("one", Duration::ZERO)).await;
    // Its running request keeps the front open.
    let at_one = FakeAgent::of(one.access(), "c-a").await;
    status(&one, ClusterState::Connected).await;
    let steps = at_one.next_stream();
    let mut watch = open(&one, &head("GET", "/stream", "")).await;
    read_until(&mut watch, "\r\n\r\n").await;
    one.process.start_drain();
    until(async || get(&one, "/who").await.code() == "FL-1406").await;
    drop(steps);
    read_until(&mut watch, "0\r\n\r\n").await;
}
