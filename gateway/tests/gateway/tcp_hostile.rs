//! Requests for TCP connections that two parsers could read in two ways: each gets its code, and none reaches an agent.

use fairlead_api::resources::ClusterState;
use fairlead_testkit::agent::FakeAgent;
use http::{Method, Request};
use tokio::io::AsyncReadExt;

use crate::{
    client::{open, read_until, status, until},
    rig::{HUB, Rig},
};

const GOOD: &str = "Authorization: Bearer good";
/// Headers of the WebSocket behind `Connection`.
const SOCKET: &str = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v1.tcp.fairlead.io\r\n";
const PATH: &str = "/v1/clusters/c-a/tcp";

/// A GET of this target with these headers.
fn get(target: &str, headers: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: {HUB}\r\n{GOOD}\r\n{headers}\r\n")
}

/// A request with this first line that asks for the WebSocket.
fn line(line: &str) -> String {
    format!("{line}\r\nHost: {HUB}\r\n{GOOD}\r\nConnection: Upgrade\r\n{SOCKET}\r\n")
}

/// Path of a connection to `target`, with a valid WebSocket.
fn path(target: &str) -> String {
    line(&format!("GET {target} HTTP/1.1"))
}

fn to(target: &str) -> String {
    path(&format!("{PATH}/{target}"))
}

/// A hub with an agent, which has taken no connection yet.
async fn hub_and_agent() -> (Rig, FakeAgent) {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    (rig, agent)
}

/// Sends each request on a connection of its own, and asserts its code. The agent gets none of them.
async fn assert_refused(rows: Vec<(String, &'static str)>) {
    let (rig, agent) = hub_and_agent().await;
    let mut wrong = Vec::new();
    for (request, code) in rows {
        let answer = rig.raw(HUB, request.as_bytes()).await;
        if answer.code() != code || !(400..500).contains(&answer.status) {
            wrong.push((request, answer.status, answer.code().to_owned()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_first_connection(&rig, &agent).await;
}

/// Asserts that the agent gets a valid request for a connection, and got none before.
async fn assert_first_connection(rig: &Rig, agent: &FakeAgent) {
    let mut client = open(rig, &to("last.shop:1")).await;
    let answer = read_until(&mut client, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    assert_eq!(agent.saw("CONNECT").await, "CONNECT last.shop:1");
}

#[tokio::test]
async fn target_with_two_readings_is_refused() {
    let (target, path_code, bad) = ("FL-1420", "FL-1303", "FL-1304");
    let rows = [
        ("", target),
        (":80", target),
        ("db", target),
        ("db:", target),
        ("db:0", target),
        ("db:080", target),
        ("db:+80", target),
        ("db:-80", target),
        ("db:65536", target),
        ("db:0x50", target),
        ("db:80:80", target),
        ("db:80,db:81", target),
        ("db,db:80", target),
        ("user@db:80", target),
        ("user:password@db:80", target),
        ("db:80@db:81", target),
        ("http:%2f%2fdb:80", path_code),
        ("http://db:80", path_code),
        ("//db:80", path_code),
        ("/db:80", path_code),
        ("db:80/", target),
        ("db:80/x", target),
        ("x/db:80", target),
        ("../tcp/db:80", path_code),
        ("..;/db:80", path_code),
        ("db%2e:80", path_code),
        ("db%2f:80", path_code),
        ("db%5c:80", path_code),
        ("db%252f:80", path_code),
        ("db%00:80", path_code),
        ("db%0d%0a:80", path_code),
        ("db%09:80", path_code),
        ("db%20:80", target),
        ("db%:80", path_code),
        ("%64b:80", target),
        ("db%3a80%00", path_code),
        ("b%c3%bccher.shop:80", target),
        ("b\u{fc}cher.shop:80", path_code),
        ("db\\:80", path_code),
        ("db :80", bad),
        ("db\t:80", bad),
        ("db\0:80", bad),
        ("db\r:80", bad),
        ("127.1:80", target),
        ("2130706433:80", target),
        ("0x7f000001:80", target),
        ("0X7F.1:80", target),
        ("017700000001:80", target),
        ("0177.0.0.1:80", target),
        ("127.0.0.01:80", target),
        ("[127.0.0.1]:80", target),
        ("%5B::ffff:127.0.0.1%5D:80", target),
        ("%5B::ffff:7f00:1%5D:80", target),
        ("%5B::FFFF%5D:80", target),
        ("%5B0:0:0:0:0:0:0:1%5D:80", target),
        ("%5B::1%25lo%5D:80", target),
        ("%5Bfe80::1%251%5D:80", target),
        ("::1:80", target),
        ("DB.shop:80", target),
        ("db.shop.:80", target),
        ("db..shop:80", target),
        ("*.shop:80", target),
    ];
    let rows = rows.map(|(segment, code)| (to(segment), code));
    assert_refused(rows.into()).await;
}

#[tokio::test]
async fn path_with_two_readings_is_refused() {
    let (path_code, no_cluster) = ("FL-1303", "FL-1301");
    let rows = [
        ("/v1/clusters/c-a%2ftcp/db:80", path_code),
        ("/v1/clusters/c-a/tcp%2fdb:80", path_code),
        ("/v1%2fclusters/c-a/tcp/db:80", path_code),
        ("/v1/clusters%5cc-a/tcp/db:80", path_code),
        ("//v1/clusters/c-a/tcp/db:80", path_code),
        ("/v1//clusters/c-a/tcp/db:80", path_code),
        ("/v1/clusters//tcp/db:80", path_code),
        ("/v1/clusters/c-a//tcp/db:80", path_code),
        ("/v1/./clusters/c-a/tcp/db:80", path_code),
        ("/k8s/../v1/clusters/c-a/tcp/db:80", path_code),
        ("/k8s/%2e%2e/v1/clusters/c-a/tcp/db:80", path_code),
        ("/v1/clusters/c-a/../c-b/tcp/db:80", path_code),
        ("/v1/clusters/%63-a/tcp/db:80", no_cluster),
        ("/v1/clusters/c-a;x/tcp/db:80", no_cluster),
        ("/v1/clusters/C-A/tcp/db:80", no_cluster),
        ("http://hub.test/v1/clusters/c-a/tcp/db:80", path_code),
        ("https://user@hub.test/v1/clusters/c-a/tcp/db:80", path_code),
        (
            "http://c-a.clusters.hub.test/v1/clusters/c-a/tcp/db:80",
            path_code,
        ),
    ];
    let rows = rows.map(|(target, code)| (path(target), code));
    assert_refused(rows.into()).await;
}

#[tokio::test]
async fn connect_of_a_client_is_refused() {
    let (path_code, bad) = ("FL-1303", "FL-1304");
    let with = |headers: &str| {
        format!("CONNECT db:80 HTTP/1.1\r\nHost: db:80\r\n{GOOD}\r\n{headers}\r\n0\r\n\r\n")
    };
    let mut rows = vec![
        (with(""), path_code),
        (with("Content-Length: 5\r\n"), path_code),
        (with("Transfer-Encoding: chunked\r\n"), path_code),
        (
            with("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
            bad,
        ),
        (with("Content-Length: 1\r\nContent-Length: 2\r\n"), bad),
        (with("Host: db:80\r\n"), bad),
        (with("Proxy-Authorization: Bearer good\r\n"), path_code),
        (with("Fairlead-User: fairlead:ada\r\n"), path_code),
        ("CONNECT db:80 HTTP/1.1\r\n\r\n".to_owned(), bad),
    ];
    for target in [
        "db:80",
        "127.0.0.1:80",
        "hub.test:443",
        "c-a.clusters.hub.test:443",
        "user@db:80",
        "/v1/clusters/c-a/tcp/db:80",
        "/",
        "http://db:80/",
        "https://hub.test/v1/clusters/c-a/tcp/db:80",
    ] {
        rows.push((line(&format!("CONNECT {target} HTTP/1.1")), path_code));
    }
    // Bytes behind it are another request of the same connection, and never a tunnel's.
    let early = with("") + &to("early.shop:1").replace("good", "bad");
    rows.push((early, path_code));
    assert_refused(rows).await;
}

#[tokio::test]
async fn other_upgrade_than_the_websocket_is_refused() {
    let (upgrade, bad, as_other) = ("FL-1421", "FL-1304", "FL-1202");
    let target = format!("{PATH}/db:80");
    let valid = format!("Connection: Upgrade\r\n{SOCKET}");
    let with = |more: &str| get(&target, &format!("{valid}{more}"));
    let without = |text: &str, instead: &str| get(&target, &valid.replace(text, instead));
    let mut rows = vec![
        (get(&target, ""), upgrade),
        (get(&target, SOCKET), upgrade),
        // Upgrades and connections.
        (with("Upgrade: websocket\r\n"), upgrade),
        (with("Upgrade: h2c\r\n"), upgrade),
        (without("websocket\r\n", "websocket, h2c\r\n"), upgrade),
        (without("websocket\r\n", "h2c, websocket\r\n"), upgrade),
        (without("websocket\r\n", "websocket/13\r\n"), upgrade),
        (without("websocket\r\n", "TLS/1.0\r\n"), upgrade),
        (without("websocket\r\n", "SPDY/3.1\r\n"), upgrade),
        (without("websocket\r\n", "\r\n"), upgrade),
        (without("Connection: Upgrade", "Connection: close"), upgrade),
        (
            without("Connection: Upgrade", "Connection: upgraded"),
            upgrade,
        ),
        (without("Connection: Upgrade", "Connection: "), upgrade),
        (
            without("Connection: Upgrade", "Connection: Upgrade, authorization"),
            bad,
        ),
        (
            without("Connection: Upgrade", "Connection: Upgrade, host"),
            bad,
        ),
        (
            without("Connection: Upgrade", "Connection: Upgrade, fairlead-user"),
            bad,
        ),
        (
            without("Connection: Upgrade", "Connection: Upgrade, content-length"),
            bad,
        ),
        // Versions, keys and subprotocols.
        (without("Version: 13", "Version: 8"), upgrade),
        (without("Version: 13", "Version: 013"), upgrade),
        (without("Version: 13", "Version: 13, 8"), upgrade),
        (without("Version: 13", "X: 13"), upgrade),
        (with("Sec-WebSocket-Version: 8\r\n"), upgrade),
        (without("dGhlIHNhbXBsZSBub25jZQ==", "short"), upgrade),
        (without("dGhlIHNhbXBsZSBub25jZQ==", ""), upgrade),
        (
            with("Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"),
            upgrade,
        ),
        (without("v1.tcp.fairlead.io", "v2.tcp.fairlead.io"), upgrade),
        (without("v1.tcp.fairlead.io", "V1.TCP.FAIRLEAD.IO"), upgrade),
        (without("v1.tcp.fairlead.io", ""), upgrade),
        (
            with("Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.Z29vZA\r\n"),
            bad,
        ),
        // Bodies.
        (with("Content-Length: 5\r\n") + "hello", upgrade),
        (
            with("Transfer-Encoding: chunked\r\n") + "0\r\n\r\n",
            upgrade,
        ),
        (
            with("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n"),
            bad,
        ),
        (with("Content-Length: +0\r\n"), bad),
        (with("Content-Length: 0\r\nContent-Length: 1\r\n"), bad),
        // Other people.
        (with("Impersonate-User: bob\r\n"), as_other),
        (with("Impersonate-User: \r\n"), as_other),
        (with("Impersonate-Group: system:masters\r\n"), as_other),
        (with("Impersonate_User: bob\r\n"), as_other),
        (with("Impersonate-Extra-Scopes: x\r\n"), as_other),
        // Lines.
        (path(&format!("{target}?")), upgrade),
        (path(&format!("{target}?x=1")), upgrade),
        (line(&format!("GET {target} HTTP/1.0")), upgrade),
    ];
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "get"] {
        rows.push((line(&format!("{method} {target} HTTP/1.1")), upgrade));
    }
    assert_refused(rows).await;
}

#[tokio::test]
async fn tcp_path_below_the_name_of_a_cluster_is_its_api_servers() {
    let (rig, agent) = hub_and_agent().await;
    let by_name = "c-a.clusters.hub.test";
    let request = to("db:80");
    let named = request.replace(HUB, by_name);
    assert_eq!(rig.raw(by_name, named.as_bytes()).await.status, 200);
    let other = request.replace(HUB, "c-b.clusters.hub.test");
    let answer = rig.raw(HUB, other.as_bytes()).await;
    assert_eq!(answer.code(), "FL-1302");
    assert_eq!(agent.saw("GET").await, format!("GET {PATH}/db:80"));
    assert_first_connection(&rig, &agent).await;
}

#[tokio::test]
async fn connect_over_http2_is_refused() {
    let (rig, agent) = hub_and_agent().await;
    let tls = rig.connect(HUB, "h2").await;
    let (sender, connection) = h2::client::handshake(tls).await.unwrap();
    tokio::spawn(connection);
    let request = |method: Method, uri: &str| {
        let request = Request::builder().method(method).uri(uri);
        request.header("authorization", "Bearer good")
    };
    let mut sender = sender.ready().await.unwrap();
    let mut send = async |request: http::request::Builder| {
        let (answer, _) = sender
            .send_request(request.body(()).unwrap(), true)
            .unwrap();
        let answer = answer.await?;
        let code = answer.headers().get("fairlead-code").cloned();
        Ok::<_, h2::Error>((
            answer.status().as_u16(),
            code.unwrap().to_str().unwrap().to_owned(),
        ))
    };
    for target in ["db:80", "127.0.0.1:80", HUB, "hub.test:443", "user@db:80"] {
        let answer = send(request(Method::CONNECT, target)).await.unwrap();
        assert_eq!(answer, (400, "FL-1303".to_owned()), "{target}");
    }
    let url = format!("https://{HUB}{PATH}/db:80");
    for method in [Method::GET, Method::POST] {
        let answer = send(request(method, &url)).await.unwrap();
        assert_eq!(answer, (400, "FL-1421".to_owned()));
    }
    let with_length = request(Method::CONNECT, "db:80").header("content-length", "5");
    send(with_length).await.unwrap_err();
    assert_first_connection(&rig, &agent).await;
}

#[tokio::test]
async fn request_behind_the_upgrade_is_no_request_and_reaches_no_target() {
    let (rig, agent) = hub_and_agent().await;
    let both = to("db.shop:1") + &to("second.shop:1");
    let mut client = open(&rig, &both).await;
    let answer = read_until(&mut client, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    let mut head = [0; 4];
    client.read_exact(&mut head).await.unwrap();
    let (first, code) = (head[0], u16::from_be_bytes([head[2], head[3]]));
    assert_eq!((first, code), (0x88, 1002), "a close frame");
    let mut reason = vec![0; usize::from(head[1]) - 2];
    client.read_exact(&mut reason).await.unwrap();
    assert!(reason.starts_with(b"FL-1424: "), "{reason:?}");
    let inputs = &agent.api.stream_inputs;
    until(async || !inputs.lock().unwrap().is_empty()).await;
    assert_eq!(*inputs.lock().unwrap(), [" (broken)"]);
    assert_eq!(agent.saw("CONNECT").await, "CONNECT db.shop:1");
    assert_first_connection(&rig, &agent).await;
}
