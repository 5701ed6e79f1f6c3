//! The front with honest and hostile clients, without an agent.

use std::sync::atomic::Ordering;

use fairlead_api::Code;
use http::{Request, header};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{
    client::until,
    rig::{DOMAIN, HUB, PausedClock, RawAnswer, Rig, TEST_DEADLINE},
};
use fairlead_testkit::agent::FakeAgent;

const GOOD: &str = "Authorization: Bearer good";

#[tokio::test]
async fn modules_answer_people_and_strangers() {
    let rig = Rig::start();
    let answer = rig.get(HUB, "/v1/whoami", "").await;
    assert_eq!((answer.status, answer.text().as_str()), (200, "ada"));

    let open = rig
        .raw(HUB, b"GET /install/x HTTP/1.1\r\nHost: hub.test\r\n\r\n")
        .await;
    assert_eq!((open.status, open.text().as_str()), (200, "manifest"));

    let nowhere = rig.get(HUB, "/nothing", "").await;
    assert_eq!((nowhere.status, nowhere.code()), (404, "FL-1305"));

    let conflict = rig
        .get(HUB, "/v1/refused", "Accept: application/json\r\n")
        .await;
    assert_eq!((conflict.status, conflict.code()), (409, "FL-4108"));
    assert!(
        conflict.text().contains("\"code\":\"FL-4108\",\"next\":\""),
        "{}",
        conflict.text()
    );

    let method = rig
        .raw(
            HUB,
            format!("POST /v1/whoami HTTP/1.1\r\nHost: {HUB}\r\n{GOOD}\r\n\r\n").as_bytes(),
        )
        .await;
    assert_eq!((method.status, method.code()), (405, "FL-1307"));
    assert_eq!(method.header("allow"), Some("GET,HEAD"));
}

#[tokio::test]
async fn panic_is_one_answer_and_keeps_the_connection() {
    let rig = Rig::start();
    let mut tls = rig.connect(HUB, "http/1.1").await;
    for (path, status) in [("bug", 500), ("whoami", 200)] {
        let request = format!("GET /v1/{path} HTTP/1.1\r\nHost: {HUB}\r\n{GOOD}\r\n\r\n");
        tls.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(RawAnswer::read(&mut tls).await.unwrap().status, status);
    }
    drop(tls);
    assert_eq!(rig.metric("fairlead_requests_total", &["failed"]), 1.0);
}

/// Sends a request with a late body, of a known length or in one chunk, and the next request on the same connection.
async fn refused_before_its_body(rig: &Rig, length: usize, chunked: bool) -> (RawAnswer, bool) {
    let mut tls = rig.connect(HUB, "http/1.1").await;
    let framing = match chunked {
        true => "Transfer-Encoding: chunked".to_owned(),
        false => format!("Content-Length: {length}"),
    };
    let head = format!("PUT /v1/whoami HTTP/1.1\r\nHost: {HUB}\r\n{GOOD}\r\n{framing}\r\n\r\n");
    tls.write_all(head.as_bytes()).await.unwrap();
    tls.flush().await.unwrap();
    let mut body = vec![b'x'; length];
    if chunked {
        body.splice(..0, format!("{length:x}\r\n").into_bytes());
        body.extend(b"\r\n0\r\n\r\n");
    }
    let (mut from, mut to) = tokio::io::split(&mut tls);
    // The gateway may stop reading once it has announced the end of the connection.
    let (answer, _) = tokio::join!(RawAnswer::read(&mut from), async {
        to.write_all(&body).await?;
        to.flush().await
    });
    let answer = answer.unwrap();
    let next = format!("GET /v1/whoami HTTP/1.1\r\nHost: {HUB}\r\n{GOOD}\r\n\r\n");
    let goes_on = answer.header("connection").is_none();
    if goes_on {
        tls.write_all(next.as_bytes()).await.unwrap();
        assert_eq!(RawAnswer::read(&mut tls).await.unwrap().status, 200);
    }
    (answer, goes_on)
}

#[tokio::test]
async fn early_rejection_keeps_the_connection() {
    let rig = Rig::start();
    // Independent of the time that reading the body takes.
    let _clock = PausedClock::start();
    for length in [1, 100_000, 3_000_000] {
        for chunked in [false, true] {
            let (answer, goes_on) = refused_before_its_body(&rig, length, chunked).await;
            assert_eq!((answer.status, goes_on), (405, true), "{length} {chunked}");
        }
    }
}

#[tokio::test]
async fn early_rejection_of_a_large_body_closes_the_connection() {
    let rig = Rig::start();
    for (more, status) in [
        ("Content-Length: 5000000", 405),
        ("Content-Length: 9\r\nExpect: 100-continue", 405),
        ("Content-Length: 9\r\nTransfer-Encoding: chunked", 400),
    ] {
        let mut tls = rig.connect(HUB, "http/1.1").await;
        let head = format!("PUT /v1/whoami HTTP/1.1\r\nHost: {HUB}\r\n{GOOD}\r\n{more}\r\n\r\n");
        tls.write_all(head.as_bytes()).await.unwrap();
        tls.flush().await.unwrap();
        let answer = RawAnswer::read(&mut tls).await.unwrap();
        let told = (answer.status, answer.header("connection"));
        assert_eq!(told, (status, Some("close")), "{more}");
    }
}

#[tokio::test]
async fn unauthenticated_requests_are_rejected_each_with_its_code() {
    let rig = Rig::start();
    for (credentials, status, code) in [
        ("", 401, Code::NoToken),
        ("Authorization: Basic Z29vZA==\r\n", 401, Code::NoToken),
        ("Authorization: Bearer\r\n", 401, Code::NoToken),
        ("Authorization: Bearer garbage\r\n", 401, Code::BadToken),
        ("Authorization: Bearer expired\r\n", 401, Code::TokenExpired),
        (
            "Authorization: Bearer good\r\nAuthorization: Bearer good\r\n",
            401,
            Code::BadToken,
        ),
        ("Authorization: Bearer good\r\n", 503, Code::NeverConnected),
    ] {
        for path in ["/k8s/clusters/c-a/api", "/v1/whoami"] {
            if status == 503 && path.starts_with("/v1") {
                continue;
            }
            let request = format!("GET {path} HTTP/1.1\r\nHost: {HUB}\r\n{credentials}\r\n");
            let answer = rig.raw(HUB, request.as_bytes()).await;
            assert_eq!(answer.status, status, "{credentials:?}");
            assert_eq!(answer.code(), code.to_string(), "{credentials:?}");
            assert!(
                answer.text().contains(code.next_step()),
                "{}",
                answer.text()
            );
            assert_eq!(answer.header("fairlead-request-id").unwrap().len(), 16);
        }
    }
}

#[tokio::test]
async fn failure_has_the_encoding_of_kubectl() {
    let rig = Rig::start();
    let accept = "Accept: application/vnd.kubernetes.protobuf,application/json\r\n";
    let answer = rig.get(HUB, "/k8s/clusters/c-a/api/v1/pods", accept).await;
    assert_eq!(
        answer.header("content-type"),
        Some("application/vnd.kubernetes.protobuf")
    );
    assert!(answer.body.starts_with(b"k8s\0"));

    let table = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json\r\n";
    let answer = rig.get(HUB, "/k8s/clusters/c-a/api/v1/pods", table).await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn known_clusters_differ_from_unknown_ones() {
    let rig = Rig::start();
    let by_name = format!("c-a.{DOMAIN}");
    for (sni, host, path, code) in [
        (HUB, HUB, "/k8s/clusters/c-a/api", Code::NeverConnected),
        (HUB, HUB, "/k8s/clusters/c-x/api", Code::NoSuchCluster),
        (HUB, HUB, "/k8s/clusters/nonsense/api", Code::NoSuchCluster),
        (&by_name, &by_name, "/api", Code::NeverConnected),
        (&by_name, "127.0.0.1:8443", "/api", Code::NeverConnected),
        ("127.0.0.1", &by_name, "/api", Code::NeverConnected),
        (&by_name, "c-b.clusters.hub.test", "/api", Code::WrongHost),
        (HUB, &by_name, "/api", Code::WrongHost),
        (&by_name, "evil.test", "/api", Code::WrongHost),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{GOOD}\r\n\r\n");
        let answer = rig.raw(sni, request.as_bytes()).await;
        assert_eq!(answer.code(), code.to_string(), "{sni} {host} {path}");
        assert_eq!(answer.status, code.http_status(), "{sni} {host} {path}");
    }
}

#[tokio::test]
async fn http2_goes_the_same_way() {
    let rig = Rig::start();
    let tls = rig.connect(HUB, "h2").await;
    let (mut sender, connection) =
        http2::handshake::<_, _, Empty<bytes::Bytes>>(TokioExecutor::new(), TokioIo::new(tls))
            .await
            .unwrap();
    tokio::spawn(connection);
    let mut ask = async |uri: &str, header: (&str, &str)| {
        let request = Request::builder()
            .uri(uri)
            .header(header::AUTHORIZATION, "Bearer good")
            .header(header.0, header.1)
            .body(Empty::new())
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        let code = response.headers().get("fairlead-code").cloned();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (
            status,
            code.map(|code| code.to_str().unwrap().to_owned()),
            body,
        )
    };
    let plain = ("x-a", "b");
    assert_eq!(ask("https://hub.test/v1/whoami", plain).await.2, "ada");
    let code = |code: &str| Some(code.to_owned());
    for (uri, header, expected) in [
        ("https://hub.test/k8s/clusters/c-a/api", plain, "FL-1401"),
        (
            "https://hub.test/k8s/clusters/c-a/%2e%2e/api",
            plain,
            "FL-1303",
        ),
        ("https://c-a.clusters.hub.test/api", plain, "FL-1302"),
        (
            "https://hub.test/k8s/clusters/c-a/api",
            ("impersonate-group", "a"),
            "FL-1202",
        ),
        (
            "https://hub.test/k8s/clusters/c-a/api",
            ("host", "other.test"),
            "FL-1302",
        ),
    ] {
        assert_eq!(ask(uri, header).await.1, code(expected), "{uri} {header:?}");
    }
}

#[tokio::test]
async fn unfinished_handshakes_block_no_client() {
    let rig = Rig::start();
    // No deadline passes meanwhile, however long the connections take.
    let _clock = PausedClock::start();
    let mut idle = Vec::new();
    for n in 0..300 {
        let mut socket = TcpStream::connect(rig.address).await.unwrap();
        if n % 2 == 0 {
            // Half a ClientHello.
            socket.write_all(&[0x16, 3, 1, 2, 0, 1, 0]).await.unwrap();
        }
        idle.push(socket);
    }
    let answer = timeout(TEST_DEADLINE, rig.get(HUB, "/v1/whoami", "")).await;
    assert_eq!(answer.unwrap().status, 200);
    timeout(TEST_DEADLINE, FakeAgent::of(rig.access(), "c-a"))
        .await
        .unwrap();
    // No timeout had to expire for that.
    let ended = |outcome| rig.metric("fairlead_handshakes_total", &["front", outcome]);
    assert_eq!((ended("ok"), ended("timeout")), (2.0, 0.0));
    drop(idle);
}

#[tokio::test]
async fn draining_rejects_new_requests_and_closes_idle_connections() {
    let rig = Rig::start();
    let mut idle = rig.connect(HUB, "http/1.1").await;
    let request = format!("GET /v1/whoami HTTP/1.1\r\nHost: {HUB}\r\n{GOOD}\r\n\r\n");
    idle.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(RawAnswer::read(&mut idle).await.unwrap().status, 200);
    rig.process.start_drain();
    let mut rest = Vec::new();
    timeout(TEST_DEADLINE, idle.read_to_end(&mut rest))
        .await
        .unwrap()
        .unwrap();
    assert!(rest.is_empty());
    assert!(
        rig.process.finish(TEST_DEADLINE).await,
        "everything ends by itself"
    );
    for gauge in [
        "fairlead_front_connections",
        "fairlead_requests_open",
        "fairlead_sessions",
    ] {
        assert_eq!(rig.metric(gauge, &[]), 0.0, "{gauge}");
    }
}

#[tokio::test]
async fn trailing_slash_of_a_modules_path_is_removed() {
    let rig = Rig::start();
    let answer = rig.get(HUB, "/v1/whoami/", "").await;
    assert_eq!((answer.status, answer.text().as_str()), (200, "ada"));
    let two = rig.get(HUB, "/v1/whoami//", "").await;
    assert_eq!((two.status, two.code()), (400, "FL-1303"));
}

#[tokio::test]
async fn wrong_tokens_are_rate_limited_and_correct_ones_accepted() {
    let rig = Rig::start();
    let guess =
        format!("GET /v1/whoami HTTP/1.1\r\nHost: {HUB}\r\nAuthorization: Bearer x\r\n\r\n");
    let mut tls = rig.connect(HUB, "http/1.1").await;
    let mut told = Vec::new();
    for _ in 0..200 {
        tls.write_all(guess.as_bytes()).await.unwrap();
        let answer = RawAnswer::read(&mut tls).await.unwrap();
        told.push((answer.status, answer.code().to_owned()));
    }
    assert_eq!(told[0], (401, "FL-1102".to_owned()));
    assert_eq!(told[199], (429, "FL-1104".to_owned()));
    let cluster = guess.replace("/v1/whoami", "/k8s/clusters/c-a/api");
    let answer = rig.raw(HUB, cluster.as_bytes()).await;
    assert_eq!((answer.status, answer.code()), (429, "FL-1104"));
    let asked = rig.modules.tokens.load(Ordering::SeqCst);
    assert_eq!(asked, 201, "once for each, with any answer");
    assert_eq!(rig.metric("fairlead_wrong_tokens_total", &[]), 201.0);
    let failures = |code: &str| rig.metric("fairlead_failures_total", &[code]);
    until(async || failures("FL-1102") + failures("FL-1104") == 201.0).await;
    assert_eq!(failures("FL-1102"), 30.0);
    assert_eq!(rig.get(HUB, "/v1/whoami", "").await.status, 200);
}

#[tokio::test]
async fn revoked_token_is_rejected_at_once_on_a_kept_alive_connection() {
    let rig = Rig::start();
    let _agent = FakeAgent::of(rig.access(), "c-a").await;
    for path in ["/v1/whoami", "/k8s/clusters/c-a/api"] {
        rig.modules.revoked.store(false, Ordering::SeqCst);
        let request = format!("GET {path} HTTP/1.1\r\nHost: {HUB}\r\n{GOOD}\r\n\r\n");
        let mut tls = rig.connect(HUB, "http/1.1").await;
        tls.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(
            RawAnswer::read(&mut tls).await.unwrap().status,
            200,
            "{path}"
        );
        rig.modules.revoked.store(true, Ordering::SeqCst);
        tls.write_all(request.as_bytes()).await.unwrap();
        let answer = RawAnswer::read(&mut tls).await.unwrap();
        assert_eq!((answer.status, answer.code()), (401, "FL-1102"), "{path}");
    }
}
