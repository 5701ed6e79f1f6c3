//! Named services: their listeners, and clients that they do not admit.

use std::{io::ErrorKind, net::SocketAddr, time::Duration};

use fairlead_api::resources::ClusterState;
use fairlead_seam::{NamedService, ServiceEntry};
use fairlead_testkit::{agent::FakeAgent, reserved_port::ReservedPort, wait::until};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{
    client::status,
    rig::{HUB, Rig, TEST_DEADLINE},
};

fn service(name: &str, entry: ServiceEntry, from: &str) -> NamedService {
    NamedService {
        name: name.parse().unwrap(),
        cluster: "c-a".parse().unwrap(),
        tenant: "t-acme".parse().unwrap(),
        target: "db.shop:5432".parse().unwrap(),
        entry,
        from: vec![from.parse().unwrap()],
    }
}

fn by_http(host: &str, callers: bool, from: &str) -> NamedService {
    let Ok(fairlead_api::tcp::TcpHost::Name(host)) = host.parse() else {
        panic!("{host} is no name");
    };
    service("web", ServiceEntry::HttpHost { host, callers }, from)
}

/// Sets the services, and waits until the gateway has handled all.
async fn set(rig: &Rig, services: Vec<NamedService>) {
    let count = services.len();
    rig.modules.states.lock().unwrap().clear();
    rig.modules.services.send_replace(services);
    let handled = async || rig.modules.states.lock().unwrap().len() == count;
    until(handled).await;
}

/// Kind of the error that ends a new connection.
async fn refusal(address: SocketAddr) -> ErrorKind {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let read = timeout(TEST_DEADLINE, stream.read_u8()).await.unwrap();
    read.unwrap_err().kind()
}

#[tokio::test]
async fn listener_comes_and_goes_with_its_service() {
    let rig = Rig::start();
    let port = ReservedPort::new().unwrap();
    let entry = ServiceEntry::Port(port.address().port());
    // No network of the client.
    set(&rig, vec![service("db", entry, "10.0.0.0/8")]).await;
    assert!(rig.modules.states.lock().unwrap()["db"].listening);
    assert_eq!(refusal(port.address()).await, ErrorKind::ConnectionReset);
    until(async || rig.metric("fairlead_failures_total", &["FL-1427"]) == 1.0).await;
    set(&rig, Vec::new()).await;
    until(async || TcpStream::connect(port.address()).await.is_err()).await;
}

#[tokio::test]
async fn port_of_another_program_is_the_state_and_is_tried_again() {
    let rig = Rig::start();
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let entry = ServiceEntry::Port(taken.local_addr().unwrap().port());
    set(&rig, vec![service("db", entry, "127.0.0.1")]).await;
    let state = rig.modules.states.lock().unwrap()["db"].clone();
    assert!(!state.listening && state.cause.is_some(), "{state:?}");
    until(async || rig.metric("fairlead_services_failed", &[]) == 1.0).await;
    drop(taken);
    until(async || rig.modules.states.lock().unwrap()["db"].listening).await;
    until(async || rig.metric("fairlead_services_failed", &[]) == 0.0).await;
}

#[tokio::test]
async fn request_to_a_host_is_refused_by_network_token_and_server_name() {
    let rig = Rig::start();
    let request =
        |authorization: &str| format!("GET /a HTTP/1.1\r\nHost: shop.test\r\n{authorization}\r\n");
    // The name is a stranger to the hub until a service has it.
    let answer = rig.raw("127.0.0.1", request("").as_bytes()).await;
    assert_eq!(answer.code(), "FL-1305", "{}", answer.text());
    set(&rig, vec![by_http("shop.test", false, "10.0.0.0/8")]).await;
    let answer = rig.raw("127.0.0.1", request("").as_bytes()).await;
    assert_eq!((answer.status, answer.code()), (403, "FL-1427"));
    // A cluster without an agent: all checks have passed.
    set(&rig, vec![by_http("shop.test", false, "127.0.0.1")]).await;
    let answer = rig.raw("127.0.0.1", request("").as_bytes()).await;
    assert_eq!(answer.code(), "FL-1401", "{}", answer.text());
    let answer = rig.raw(HUB, request("").as_bytes()).await;
    assert_eq!((answer.status, answer.code()), (421, "FL-1302"));

    set(&rig, vec![by_http("shop.test", true, "127.0.0.1")]).await;
    let answer = rig.raw("127.0.0.1", request("").as_bytes()).await;
    assert_eq!(answer.status, 401);
    assert!(answer.head.contains("Basic realm="), "{}", answer.head);
    // `x:good` and `x:wrong`.
    for (password, code) in [("eDpnb29k", "FL-1401"), ("eDp3cm9uZw==", "FL-1102")] {
        let authorization = format!("Authorization: Basic {password}\r\n");
        let answer = rig
            .raw("127.0.0.1", request(&authorization).as_bytes())
            .await;
        assert_eq!(answer.code(), code, "{}", answer.text());
    }
}

/// A hub with an agent and a service, whose target answers with the number of its connection.
async fn numbered() -> (Rig, FakeAgent, NamedService) {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let mut web = by_http("shop.test", false, "127.0.0.1");
    web.target = "web.shop:80".parse().unwrap();
    set(&rig, vec![web.clone()]).await;
    (rig, agent, web)
}

async fn number(rig: &Rig, request: &str, headers: &str) -> String {
    let request = format!("{request} HTTP/1.1\r\nHost: shop.test\r\n{headers}\r\n");
    let answer = rig.raw("127.0.0.1", request.as_bytes()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text()
}

#[tokio::test]
async fn reads_share_a_connection_to_the_target() {
    let (rig, agent, mut web) = numbered().await;
    for _ in 0..3 {
        assert_eq!(number(&rig, "GET /a", "").await, "1");
    }
    // A write must not meet the end of an idle connection. Its own serves reads later, the newest first.
    assert_eq!(number(&rig, "POST /a", "Content-Length: 0\r\n").await, "2");
    assert_eq!(number(&rig, "GET /a", "").await, "2");
    // A connection may be signed in by then.
    let sign_in = "Authorization: NTLM TlRM\r\n";
    assert_eq!(number(&rig, "GET /a", sign_in).await, "3");
    assert_eq!(number(&rig, "GET /a", "").await, "2");
    assert_eq!(number(&rig, "GET /close", "").await, "2");
    assert_eq!(number(&rig, "GET /close", "").await, "1");
    assert_eq!(number(&rig, "GET /a", "").await, "4");
    // Another service has none of its connections.
    web.from.push("10.0.0.0/8".parse().unwrap());
    set(&rig, vec![web]).await;
    assert_eq!(number(&rig, "GET /a", "").await, "5");
    // Each request counts for its cluster, and no idle connection does.
    let count = |name| rig.metric(name, &["c-a"]);
    assert_eq!(count("fairlead_cluster_requests_total"), 11.0);
    until(async || count("fairlead_cluster_requests_open") == 0.0).await;
    drop(agent);
    let other = FakeAgent::of(rig.access(), "c-a").await;
    assert_eq!(number(&rig, "GET /a", "").await, "1");
    assert_eq!(other.saw("CONNECT").await, "CONNECT web.shop:80");
}

#[tokio::test]
async fn session_with_many_streams_keeps_no_idle_connection() {
    let (rig, agent, _) = numbered().await;
    let mut streams = Vec::new();
    for _ in 0..130 {
        let mut stream = agent.session.open().await.unwrap();
        stream.write_all(b"G").await.unwrap();
        stream.flush().await.unwrap();
        streams.push(stream);
    }
    let open = || rig.metric("fairlead_streams_open", &[]);
    until(async || open() >= 130.0).await;
    for expected in ["1", "2", "3"] {
        assert_eq!(number(&rig, "GET /a", "").await, expected);
    }
    drop(streams);
    until(async || open() < 100.0).await;
    for _ in 0..2 {
        assert_eq!(number(&rig, "GET /a", "").await, "4");
    }
}

#[tokio::test]
async fn drained_hub_listens_for_no_service() {
    let rig = Rig::with(|config| config.limits.drain_delay = Duration::ZERO);
    let port = ReservedPort::new().unwrap();
    let entry = ServiceEntry::Port(port.address().port());
    set(&rig, vec![service("db", entry, "127.0.0.1")]).await;
    rig.process.start_drain();
    until(async || TcpStream::connect(port.address()).await.is_err()).await;
}
