//! Running requests that lose their access end at once, with the reason in their own protocol.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use fairlead_api::{
    Code, Failure,
    resources::{ClusterState, RequestKind},
};
use fairlead_seam::{RequestFilter, Termination};
use fairlead_testkit::{agent::FakeAgent, api_server::BodyStep, raw::ByteStream};
use http_body::Frame;
use serde_json::Value;
use time::OffsetDateTime;
use tokio::{io::AsyncReadExt, sync::mpsc};

use crate::{
    client::{head, open, read_until, rest, status, until},
    rig::{HUB, RawAnswer, Rig},
};

const POD: &str = "/api/v1/namespaces/n/pods/p";

async fn rig() -> (Rig, FakeAgent) {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    (rig, agent)
}

/// The token of all requests is deleted.
pub(crate) fn revoke(rig: &Rig) {
    rig.modules.revoked.store(true, Ordering::SeqCst);
    rig.modules.access_changes.send_modify(|at| *at += 1);
}

/// Opens a streamed answer, and reads its first data.
pub(crate) async fn stream(
    rig: &Rig,
    agent: &FakeAgent,
    path: &str,
    data: &'static str,
) -> Box<dyn ByteStream> {
    let steps = agent.next_stream();
    let mut client = open(rig, &head("GET", path, "")).await;
    read_until(&mut client, "\r\n\r\n").await;
    let first = Frame::data(Bytes::from_static(data.as_bytes()));
    steps.send(Ok(first)).await.unwrap();
    read_until(&mut client, &format!("{data}\r\n")).await;
    // The server never ends by itself.
    std::mem::forget(steps);
    client
}

/// The `Status` in the last event of a watch that has ended cleanly.
pub(crate) fn last_status(rest: &str) -> Value {
    let line = rest.lines().find(|line| line.starts_with('{')).expect(rest);
    assert!(rest.ends_with("\r\n0\r\n\r\n"), "a clean end: {rest:?}");
    let event: Value = serde_json::from_str(line).unwrap();
    assert_eq!(event["type"], "ERROR");
    event["object"].clone()
}

#[tokio::test]
async fn watch_ends_with_a_status_when_its_token_is_deleted() {
    let (rig, agent) = rig().await;
    let mut watch = stream(&rig, &agent, "/events?watch=true", "{\"type\":\"ADDED\"}\n").await;
    revoke(&rig);
    let status = last_status(&read_until(&mut watch, "\r\n0\r\n\r\n").await);
    assert_eq!(status["code"], 403);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("deleted") && message.contains("FL-1205"),
        "{message}"
    );
}

#[tokio::test]
async fn log_ends_with_a_line_and_breaks() {
    let (rig, agent) = rig().await;
    let mut log = stream(
        &rig,
        &agent,
        &format!("{POD}/log?follow=true"),
        "half a line",
    )
    .await;
    revoke(&rig);
    let (text, _) = rest(&mut log).await;
    assert!(
        text.contains("\nfairlead: ") && text.contains("(FL-1205)\n"),
        "{text:?}"
    );
    assert!(!text.ends_with("0\r\n\r\n"), "it is not complete: {text:?}");
}

/// Ends all requests, with the order of an admin.
fn end_all(rig: &Rig) {
    let requests = rig.modules.requests.get().unwrap();
    requests.end(&RequestFilter::default(), &Code::RequestEnded.into());
}

/// Opens a watch, and reads the first half of an event.
async fn half_an_event(
    rig: &Rig,
    agent: &FakeAgent,
) -> (Box<dyn ByteStream>, mpsc::Sender<BodyStep>) {
    let steps = agent.next_stream();
    let mut watch = open(rig, &head("GET", "/events?watch=true", "")).await;
    read_until(&mut watch, "\r\n\r\n").await;
    let half = Frame::data(Bytes::from_static(b"{\"type\":"));
    steps.send(Ok(half)).await.unwrap();
    read_until(&mut watch, "{\"type\":\r\n").await;
    (watch, steps)
}

#[tokio::test]
async fn ended_watch_is_not_complete_if_its_server_ends_within_an_event() {
    let (rig, agent) = rig().await;
    let (mut watch, steps) = half_an_event(&rig, &agent).await;
    end_all(&rig);
    drop(steps);
    let (text, _) = rest(&mut watch).await;
    assert!(!text.ends_with("0\r\n\r\n"), "it is complete: {text:?}");
}

#[tokio::test]
async fn ended_watch_has_the_reason_if_its_server_ends_after_an_event() {
    let (rig, agent) = rig().await;
    let (mut watch, steps) = half_an_event(&rig, &agent).await;
    end_all(&rig);
    let other_half = Frame::data(Bytes::from_static(b"\"ADDED\"}\n"));
    steps.send(Ok(other_half)).await.unwrap();
    drop(steps);
    let text = read_until(&mut watch, "\r\n0\r\n\r\n").await;
    assert!(text.contains("\"ADDED\"}\n"), "{text:?}");
    assert!(text.contains("FL-1204"), "{text:?}");
}

#[tokio::test]
async fn exec_gets_a_status_on_its_error_channel() {
    for protocol in ["v5.channel.k8s.io", "v4.channel.k8s.io"] {
        // A pass over the table checks a credential once: in one hub it could end the second request early.
        let (rig, _agent) = rig().await;
        let headers = format!(
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: {protocol}\r\n"
        );
        let mut exec = open(
            &rig,
            &head("GET", &format!("{POD}/exec?command=sh"), &headers),
        )
        .await;
        read_until(&mut exec, "\r\n\r\n").await;
        let mut frame = [0; 5];
        exec.read_exact(&mut frame).await.unwrap();
        assert_eq!(frame, *b"\x82\x03\x01hi");
        revoke(&rig);
        exec.read_exact(&mut frame).await.unwrap();
        let [0x82, 126, high, low, 3] = frame else {
            panic!("{frame:x?}");
        };
        let mut body = vec![0; usize::from(u16::from_be_bytes([high, low])) - 1];
        exec.read_exact(&mut body).await.unwrap();
        let status: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(status["status"], "Failure");
        assert!(
            status["message"].as_str().unwrap().contains("FL-1205"),
            "{status}"
        );
        let mut close = [0; 4];
        exec.read_exact(&mut close).await.unwrap();
        assert_eq!(close, [0x88, 2, 0x03, 0xe8]);
        assert_eq!(exec.read(&mut [0]).await.unwrap(), 0, "a clean end");
    }
}

#[tokio::test]
async fn upgrade_of_an_unknown_protocol_is_reset() {
    let (rig, _agent) = rig().await;
    let headers = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n";
    let mut echo = open(&rig, &head("POST", "/echo", headers)).await;
    read_until(&mut echo, "\r\n\r\n").await;
    revoke(&rig);
    let (_, end) = rest(&mut echo).await;
    assert!(end.is_err(), "a reset, not an end");
}

#[tokio::test]
async fn waiting_requests_are_answered_with_the_reason() {
    let of_cluster = head("GET", "/silent", "");
    let of_hub =
        format!("GET /v1/waits HTTP/1.1\r\nHost: {HUB}\r\nAuthorization: Bearer good\r\n\r\n");
    for request in [of_cluster, of_hub] {
        // A hub for each, as above.
        let (rig, _agent) = rig().await;
        let requests = rig.modules.requests.get().unwrap();
        let mut client = open(&rig, &request).await;
        until(async || requests.list().len() == 1).await;
        revoke(&rig);
        let answer = RawAnswer::read(&mut client).await.unwrap();
        assert_eq!((answer.status, answer.code()), (403, "FL-1205"));
        until(async || requests.list().is_empty()).await;
    }
}

#[tokio::test]
async fn deleted_cluster_ends_its_watch_with_the_reason() {
    let (rig, agent) = rig().await;
    let mut watch = stream(&rig, &agent, "/events?watch=true", "{}\n").await;
    let cluster = "c-a".parse().unwrap();
    rig.modules.clusters.lock().unwrap().remove(&cluster);
    rig.modules.revocations.send(cluster).unwrap();
    let status = last_status(&read_until(&mut watch, "\r\n0\r\n\r\n").await);
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("deleted"), "{message}");
}

#[tokio::test]
async fn order_ends_matching_requests_that_began_before_it() {
    let (rig, agent) = rig().await;
    let requests = rig.modules.requests.get().unwrap();
    let mut watch = stream(&rig, &agent, "/events?watch=true", "{}\n").await;
    let mut other = stream(&rig, &agent, "/events", "{}\n").await;
    let running = requests.list();
    assert_eq!(running.len(), 2);
    let shown = running
        .iter()
        .find(|it| it.kind == RequestKind::Watch)
        .unwrap();
    assert_eq!(shown.caller, "ada");
    assert_eq!(shown.cluster.as_ref().unwrap().as_str(), "c-a");
    assert_eq!(shown.tenant.as_ref().unwrap().as_str(), "t-acme");
    assert_eq!((shown.method.as_str(), shown.bytes_out), ("GET", 3));
    let order = |caller: &str, started_before| Termination {
        filter: RequestFilter {
            caller: Some(caller.to_owned()),
            kind: Some(RequestKind::Watch),
            ..RequestFilter::default()
        },
        started_before,
        failure: Failure::because(Code::RequestEnded, "root: maintenance"),
    };
    *rig.modules.terminations.lock().unwrap() = vec![
        order("bob", OffsetDateTime::now_utc()),
        order("ada", OffsetDateTime::UNIX_EPOCH),
        order("ada", OffsetDateTime::now_utc()),
    ];
    rig.modules.access_changes.send_modify(|at| *at += 1);
    let status = last_status(&read_until(&mut watch, "\r\n0\r\n\r\n").await);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("maintenance") && message.contains("FL-1204"),
        "{message}"
    );
    until(async || requests.list().len() == 1).await;
    let ended = requests.end(&RequestFilter::default(), &Code::RequestEnded.into());
    assert_eq!(ended, 1);
    assert!(!rest(&mut other).await.0.ends_with("0\r\n\r\n"));
}
