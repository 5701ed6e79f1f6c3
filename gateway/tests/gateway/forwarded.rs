//! Requests that one hub forwards to another, which has the session of the cluster.

use std::sync::{Arc, atomic::Ordering::SeqCst};

use fairlead_api::{
    ClusterId,
    resources::{ClusterState, ClusterStatus},
};
use fairlead_dialer::{CloseReason, DialTrace, Dialer, Limits, ProxyRules};
use fairlead_exchange::{Answer, Exchanges};
use fairlead_seam::RemoteHub;
use fairlead_testkit::{agent::FakeAgent, body::full};
use http::Request;
use http_body_util::BodyExt;
use time::OffsetDateTime;
use tokio::{io::AsyncWriteExt, net::TcpSocket};

use crate::{
    client::{ROOT, head, open, read_until, rest, status, until},
    ended::{last_status, revoke, stream},
    rig::{HUB, RawAnswer, Rig},
};

fn remote(name: &str, port: u16) -> RemoteHub {
    RemoteHub {
        id: name.into(),
        url: format!("https://{name}.example").parse().unwrap(),
        address: format!("https://127.0.0.1:{port}").parse().unwrap(),
    }
}

/// The hub learns that these others are live, and that all clusters have a session with those in `listed`.
pub(crate) fn introduce(rig: &Rig, others: &[(&str, u16)], listed: &[&str]) {
    let seen = ClusterStatus {
        state: ClusterState::Connected,
        since: OffsetDateTime::now_utc(),
        last_error: None,
        last_seen: None,
        last_good_probe: None,
        hub: None,
    };
    let cluster: ClusterId = "c-a".parse().unwrap();
    let mut clusters = rig.modules.clusters.lock().unwrap();
    clusters.insert(cluster, Some(seen));
    let listed = listed.iter().map(|name| Arc::from(*name)).collect();
    *rig.modules.with_session.lock().unwrap() = listed;
    let others = others.iter().map(|(name, port)| remote(name, *port));
    rig.modules.remote_hubs.send_replace(others.collect());
}

/// Two hubs; the agent of the cluster is connected to the second one.
pub(crate) async fn hubs() -> (Rig, Rig, FakeAgent) {
    hubs_with(Rig::of_hub("one", None)).await
}

/// As [`hubs`], with this first hub.
pub(crate) async fn hubs_with(one: Rig) -> (Rig, Rig, FakeAgent) {
    let two = Rig::of_hub("two", Some(&one.authority));
    let agent = joined(&one, &two).await;
    (one, two, agent)
}

/// Makes both hubs know each other. The agent is connected to the second one.
pub(crate) async fn joined(one: &Rig, two: &Rig) -> FakeAgent {
    let agent = FakeAgent::of(two.access(), "c-a").await;
    status(two, ClusterState::Connected).await;
    introduce(one, &[("two", two.address.port())], &["two"]);
    // A watch does not wait for the link.
    until(async || one.metric("fairlead_hub_sessions", &[]) == 4.0).await;
    agent
}

fn forwarded(rig: &Rig, direction: &str) -> f64 {
    rig.metric("fairlead_forwarded_requests_total", &[direction])
}

pub(crate) async fn get(rig: &Rig, path: &str) -> RawAnswer {
    rig.get(HUB, &format!("{ROOT}{path}"), "").await
}

/// Waits until requests fail with this error of the last dial of the other hub.
async fn refused_because(rig: &Rig, cause: &str) {
    until(async || {
        // A watch does not wait for the link.
        let answer = get(rig, "/events?watch=true").await;
        (answer.status, answer.code()) == (503, "FL-1408") && answer.text().contains(cause)
    })
    .await;
}

#[tokio::test]
async fn agent_gets_the_caller_of_the_first_hub_and_none_of_the_clients_claims() {
    let (one, two, agent) = hubs().await;
    let claims = "Fairlead-User: fairlead:root\r\nFairlead-Group: fairlead:admin\r\nFairlead-Cluster: c-b\r\n\
        Fairlead-Hub-Code: FL-1409\r\nUser-Agent: kubectl\r\n";
    let answer = one.get(HUB, &format!("{ROOT}/headers"), claims).await;
    let text = answer.text();
    let who = |line: &&str| line.starts_with("fairlead-") || line.starts_with("user-agent");
    let lines: Vec<&str> = text.lines().filter(who).collect();
    assert_eq!(
        lines,
        [
            "fairlead-group: fairlead:admin",
            "fairlead-group: fairlead:tenant:t-acme:admin",
            "fairlead-user: fairlead:ada",
            "user-agent: kubectl",
        ]
    );
    agent.saw("GET /headers").await;
    assert_eq!(forwarded(&one, "to-hub"), 1.0);
    // Counted once the last byte has left.
    until(async || forwarded(&two, "from-hub") == 1.0).await;
    assert_eq!(two.metric("fairlead_hub_sessions", &[]), 0.0, "one way");
}

#[tokio::test]
async fn bodies_pass_both_ways() {
    let (one, _two, _agent) = hubs().await;
    let body = "x".repeat(700_000);
    let length = format!("Content-Length: {}\r\n", body.len());
    let mut client = open(&one, &head("POST", "/upload", &length)).await;
    client.write_all(body.as_bytes()).await.unwrap();
    client.flush().await.unwrap();
    let answer = RawAnswer::read(&mut client).await.unwrap();
    assert_eq!(answer.text(), "700000 bytes, 0 trailers");
    let missing = get(&one, "/not-found").await;
    assert_eq!(
        (missing.status, missing.text().as_str()),
        (404, "no such thing")
    );
    let liar = get(&one, "/liar").await;
    assert!(!liar.head.contains("fairlead"), "{}", liar.head);
}

#[tokio::test]
async fn upgraded_stream_passes_with_half_close() {
    let (one, _two, _agent) = hubs().await;
    let headers = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n";
    let mut echo = open(&one, &head("POST", "/echo", headers)).await;
    let answer = read_until(&mut echo, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    echo.write_all(b"to and fro").await.unwrap();
    echo.flush().await.unwrap();
    read_until(&mut echo, "to and fro").await;
    echo.shutdown().await.unwrap();
    let (text, end) = rest(&mut echo).await;
    assert_eq!((text.as_str(), end.unwrap()), ("bye", 3));
}

#[tokio::test]
async fn revoked_token_ends_its_forwarded_watch_with_the_reason() {
    let (one, two, agent) = hubs().await;
    let mut watch = stream(&one, &agent, "/events?watch=true", "{\"type\":\"ADDED\"}\n").await;
    assert!(
        two.modules.requests.get().unwrap().list().is_empty(),
        "listed once"
    );
    revoke(&one);
    let status = last_status(&read_until(&mut watch, "\r\n0\r\n\r\n").await);
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("FL-1205"), "{message}");
    // The stream to the agent has ended, too.
    until(async || forwarded(&two, "from-hub") == 1.0).await;
    assert_eq!(
        two.metric("fairlead_forwarded_requests_total", &["left"]),
        1.0
    );
}

#[tokio::test]
async fn hub_without_a_session_refuses_and_never_forwards_again() {
    let one = Rig::of_hub("one", None);
    let two = Rig::of_hub("two", Some(&one.authority));
    let three = Rig::of_hub("three", Some(&one.authority));
    let agent = FakeAgent::of(three.access(), "c-a").await;
    status(&three, ClusterState::Connected).await;
    let (at_two, at_three) = (two.address.port(), three.address.port());
    // The second hub could forward to the third.
    introduce(&two, &[("three", at_three)], &["three"]);
    until(async || two.metric("fairlead_hub_sessions", &[]) > 0.0).await;
    introduce(&one, &[("two", at_two), ("three", at_three)], &["two"]);
    let length = "Content-Length: 4\r\n";
    let mut client = open(&one, &format!("{}body", head("POST", "/upload", length))).await;
    let answer = RawAnswer::read(&mut client).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    agent.saw("POST /upload").await;
    assert_eq!(forwarded(&two, "to-hub"), 0.0, "no second hop");
    until(async || forwarded(&three, "from-hub") == 1.0).await;
    assert_eq!(
        agent.requests.lock().await.try_recv().ok(),
        None,
        "sent once"
    );
}

#[tokio::test]
async fn cluster_without_any_session_fails_with_the_code_of_the_refusal() {
    let one = Rig::of_hub("one", None);
    let two = Rig::of_hub("two", Some(&one.authority));
    introduce(&one, &[("two", two.address.port())], &["two"]);
    until(async || one.metric("fairlead_hub_sessions", &[]) > 0.0).await;
    let watch = get(&one, "/events?watch=true").await;
    assert_eq!((watch.status, watch.code()), (503, "FL-1409"));
    assert!(
        watch.text().contains("https://two.example"),
        "{}",
        watch.text()
    );
}

#[tokio::test]
async fn read_moves_to_another_hub_when_its_hub_dies() {
    let one = Rig::of_hub("one", None);
    let two = Rig::of_hub("two", Some(&one.authority));
    let three = Rig::of_hub("three", Some(&one.authority));
    let at_two = FakeAgent::of(two.access(), "c-a").await;
    let at_three = FakeAgent::of(three.access(), "c-a").await;
    status(&two, ClusterState::Connected).await;
    status(&three, ClusterState::Connected).await;
    let relay = two.relay().await;
    let ports = [
        ("two", relay.address().port()),
        ("three", three.address.port()),
    ];
    introduce(&one, &ports, &["two", "three"]);
    until(async || one.metric("fairlead_hub_sessions", &[]) == 8.0).await;
    at_two.api.hangs.store(true, SeqCst);
    let mut write = open(&one, &head("POST", "/written", "")).await;
    at_two.saw("POST /written").await;
    let mut read = open(&one, &head("GET", "/who", "")).await;
    at_two.saw("GET /who").await;
    relay.stop();
    let answer = RawAnswer::read(&mut read).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    at_three.saw("GET /who").await;
    let answer = RawAnswer::read(&mut write).await.unwrap();
    assert_eq!((answer.status, answer.code()), (502, "FL-1404"));
    assert!(
        answer.text().contains("may have been carried out"),
        "{}",
        answer.text()
    );
    // New requests go to the hub that is left.
    assert_eq!(get(&one, "/next").await.status, 200);
    at_three.saw("GET /next").await;
}

#[tokio::test]
async fn hub_of_another_authority_is_no_hub() {
    let one = Rig::of_hub("one", None);
    let two = Rig::of_hub("two", None);
    let _agent = FakeAgent::of(two.access(), "c-a").await;
    status(&two, ClusterState::Connected).await;
    introduce(&one, &[("two", two.address.port())], &["two"]);
    refused_because(&one, "FL-3108").await;
    assert_eq!(one.metric("fairlead_hub_sessions", &[]), 0.0);
}

#[tokio::test]
async fn address_of_another_hub_or_of_the_hub_itself_is_not_used() {
    let (one, two, _agent) = hubs().await;
    let misled = Rig::of_hub("misled", Some(&one.authority));
    let ports = [
        ("three", two.address.port()),
        ("four", misled.address.port()),
    ];
    for (name, port) in ports {
        introduce(&misled, &[(name, port)], &[name]);
        refused_because(&misled, "--hub-address leads to the hub").await;
    }
    assert_eq!(forwarded(&misled, "to-hub"), 0.0);
}

#[tokio::test]
async fn unreachable_hub_is_named_with_the_error() {
    let one = Rig::of_hub("one", None);
    // Bound, so that no other test listens there.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = closed.local_addr().unwrap().port();
    introduce(&one, &[("two", port)], &["two"]);
    refused_because(&one, "https://two.example: FL-3102").await;
}

/// Sends a forwarded request over a session.
async fn send_forwarded(exchanges: &Exchanges) -> (u16, String) {
    let request = Request::get("/who")
        .header("host", "hub")
        .header("fairlead-cluster", "c-a")
        .header("fairlead-user", "fairlead:root")
        .header("audit-id", "0123456789abcdef")
        .body(full(""))
        .unwrap();
    let Answer::Response(response) = exchanges.send(request).await.unwrap() else {
        panic!("upgraded");
    };
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn only_a_hubs_certificate_may_forward() {
    let (_one, two, agent) = hubs().await;
    // An agent has a certificate of the same authority.
    let (status, text) = send_forwarded(&agent.exchanges).await;
    assert_eq!(status, 404, "{text}");
    let visitor = FakeAgent::without_identity(two.access()).await;
    let (status, text) = send_forwarded(&visitor.exchanges).await;
    assert_eq!(status, 403, "{text}");
    assert_eq!(forwarded(&two, "from-hub"), 0.0);

    let now = OffsetDateTime::now_utc();
    let leaf = two.authority.issue_hub_client(now).unwrap();
    let inner = fairlead_certs::session_client(two.authority.pin(), Some(&leaf)).unwrap();
    let dialer = Dialer {
        outer: two.client_config("http/1.1"),
        any_time: None,
        proxy: ProxyRules::default(),
        trace: DialTrace::default(),
        limits: Limits::default(),
    };
    let url = format!("https://localhost:{}", two.address.port());
    let dialed = Box::pin(dialer.dial(&url.parse().unwrap(), inner)).await;
    let hub = Exchanges::new(dialed.unwrap().session);
    let (status, text) = send_forwarded(&hub).await;
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("hello first"), "{text}");
}

#[tokio::test]
async fn read_moves_to_another_hub_when_its_own_session_ends() {
    let (one, _two, at_two) = hubs().await;
    let at_one = FakeAgent::of(one.access(), "c-a").await;
    status(&one, ClusterState::Connected).await;
    at_one.api.hangs.store(true, SeqCst);
    let mut read = open(&one, &head("GET", "/who", "")).await;
    at_one.saw("GET /who").await;
    at_one.session.close(CloseReason::Done);
    let answer = RawAnswer::read(&mut read).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    at_two.saw("GET /who").await;
    assert_eq!(one.metric("fairlead_reads_moved_total", &[]), 1.0);
}

#[tokio::test]
async fn sessions_of_all_hubs_are_listed_with_their_hubs() {
    let (one, two, _agent) = hubs().await;
    let _at_one = FakeAgent::of(one.access(), "c-a").await;
    let ports = [("two", two.address.port()), ("gone", 1)];
    introduce(&one, &ports, &["two"]);
    let presence = one.modules.presence.get().unwrap();
    let cluster = "c-a".parse().unwrap();
    until(async || {
        let list = presence.sessions_of_all_hubs(&cluster).await;
        !list.incomplete_hubs.is_empty()
    })
    .await;
    let list = presence.sessions_of_all_hubs(&cluster).await;
    let hubs = list
        .items
        .iter()
        .map(|it| it.hub.as_ref().unwrap().to_string());
    let hubs: Vec<String> = hubs.collect();
    assert_eq!(hubs, ["https://hub.test", "https://two.example"]);
    let missing: Vec<String> = list
        .incomplete_hubs
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(missing, ["https://gone.example"]);
    let alone = Rig::start();
    let _agent = FakeAgent::of(alone.access(), "c-a").await;
    let presence = alone.modules.presence.get().unwrap();
    let list = presence.sessions_of_all_hubs(&cluster).await;
    assert!(
        list.items.len() == 1 && list.items[0].hub.is_none(),
        "{list:?}"
    );
}

#[tokio::test]
async fn client_gets_the_reason_when_the_agent_of_the_other_hub_loses_its_identity() {
    let (one, two, agent) = hubs().await;
    introduce(&two, &[("one", one.address.port())], &[]);
    until(async || two.metric("fairlead_hub_sessions", &[]) == 4.0).await;
    let added = "{\"type\":\"ADDED\"}\n";
    let mut watch = stream(&one, &agent, "/events?watch=true", added).await;
    *two.modules.moves_after.lock().unwrap() = Some(0);
    let cluster = "c-a".parse().unwrap();
    two.modules.revocations.send(cluster).unwrap();
    let status = last_status(&read_until(&mut watch, "\r\n0\r\n\r\n").await);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("FL-1205") && message.contains("another tenant"),
        "{message}"
    );
}

#[tokio::test]
async fn activity_covers_all_hubs_and_names_the_one_without_an_answer() {
    let (one, two, _agent) = hubs().await;
    let _at_one = FakeAgent::of(one.access(), "c-a").await;
    status(&one, ClusterState::Connected).await;
    let ports = [("two", two.address.port()), ("gone", 1)];
    introduce(&one, &ports, &["two"]);
    let presence = one.modules.presence.get().unwrap();
    let clusters = ["c-a".parse().unwrap(), "c-none".parse().unwrap()];
    // The hub may not know of the one that is gone yet.
    until(async || {
        let fleet = presence.activity_of_all_hubs(&clusters).await;
        !fleet.incomplete.is_empty()
    })
    .await;
    let fleet = presence.activity_of_all_hubs(&clusters).await;
    let urls = fleet.hubs.iter().map(|(hub, _)| hub.as_ref().unwrap());
    let urls: Vec<String> = urls.map(ToString::to_string).collect();
    assert_eq!(urls, ["https://hub.test", "https://two.example"]);
    for (_, activity) in &fleet.hubs {
        assert_eq!(activity.clusters.len(), 1, "{activity:?}");
        let [at_hub] = activity.clusters.values().collect::<Vec<_>>()[..] else {
            panic!("{activity:?}");
        };
        assert_eq!((at_hub.sessions.agents, at_hub.instances.len()), (1, 1));
    }
    let missing: Vec<String> = fleet.incomplete.iter().map(ToString::to_string).collect();
    assert_eq!(missing, ["https://gone.example"]);
}
