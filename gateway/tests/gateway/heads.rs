//! Heads of requests: forms of smuggling, and heads that are too large or that nobody can read.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use crate::rig::{HUB, RawAnswer, Rig, TEST_DEADLINE};

const GOOD: &str = "Authorization: Bearer good";

/// All with a valid token, so the form is rejected.
#[tokio::test]
#[expect(clippy::too_many_lines, reason = "it is a table")]
async fn forms_of_smuggling_are_refused() {
    let rig = Rig::start();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: hub.test\r\n{GOOD}\r\n\r\n");
    let with = |headers: &str| {
        format!(
            "POST /k8s/clusters/c-a/api HTTP/1.1\r\nHost: hub.test\r\n{GOOD}\r\n{headers}\r\n\r\n0\r\n\r\n"
        )
    };
    let line = |line: &str| format!("{line}\r\nHost: hub.test\r\n{GOOD}\r\n\r\n");
    let (path, bad, as_other) = ("FL-1303", "FL-1304", "FL-1202");
    let root = "/k8s/clusters/c-a";
    for (request, code) in [
        (get(&format!("{root}/%2e%2e/c-b/api")), path),
        (get(&format!("{root}/../c-b/api")), path),
        (get(&format!("{root}/./api")), path),
        (get(&format!("{root}//api")), path),
        (get("//k8s/clusters/c-a/api"), path),
        (get(&format!("{root}/api%2f..%2fx")), path),
        (get(&format!("{root}/api%5cx")), path),
        (get(&format!("{root}/api\\x")), path),
        (get(&format!("{root}/api%00")), path),
        (get(&format!("{root}/%252e%252e/x")), path),
        (get("/%6b8s/../k8s/clusters/c-a/api"), path),
        (get(&format!("{root}/..;/api")), path),
        (
            line("GET https://hub.test/k8s/clusters/c-a/api HTTP/1.1"),
            path,
        ),
        (
            line("GET http://evil.test/k8s/clusters/c-a/api HTTP/1.1"),
            path,
        ),
        (line("CONNECT hub.test:443 HTTP/1.1"), path),
        (line("OPTIONS * HTTP/1.1"), path),
        (line("GET k8s/clusters/c-a/api HTTP/1.1"), bad),
        (line("GET /k8s/clusters/c-a/api api HTTP/1.1"), bad),
        (line("GET /k8s/clusters/c-a/a\tb HTTP/1.1"), bad),
        (line("GET /k8s/clusters/c-a/api HTTP/3.0"), bad),
        (with("Impersonate-User:"), as_other),
        (
            with("Impersonate-User: a\r\nImpersonate-Group: b"),
            as_other,
        ),
        (with("impersonate-user: a\r\nImpersonate-User: b"), as_other),
        (with("IMPERSONATE-GROUP: system:masters"), as_other),
        (with("Impersonate-Extra-Scopes: x"), as_other),
        (with("Impersonate-Uid:"), as_other),
        (with("Impersonate_User: system:admin"), as_other),
        (
            with("Connection: Impersonate-User\r\nImpersonate-User: a"),
            bad,
        ),
        (with("Connection: close, Authorization"), bad),
        (with("Connection: Host"), bad),
        (with("Connection: content-length"), bad),
        (
            with("Connection: transfer-encoding\r\nTransfer-Encoding: chunked"),
            bad,
        ),
        (with("Connection: fairlead-user\r\nFairlead-User: a"), bad),
        (with("Content-Length: 5\r\nContent-Length: 6"), bad),
        (with("Content-Length: 5, 5"), bad),
        (with("Content-Length: +5"), bad),
        (with("Content-Length: -1"), bad),
        (with("Content-Length: 0x5"), bad),
        (with("Transfer-Encoding: gzip"), bad),
        (with("Transfer-Encoding: chunked, identity"), bad),
        (with("Transfer-Encoding: xchunked"), bad),
        (with("Transfer-Encoding: gzip, chunked"), bad),
        (
            with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
            bad,
        ),
        (with("Host: hub.test"), bad),
        (with("Host: c-b.clusters.hub.test"), bad),
        (with("X-Folded: a\r\n b"), bad),
        (with("X-Folded: a\r\n\tImpersonate-User: b"), bad),
        (with("Impersonate-User : a"), bad),
        (with(" Impersonate-User: a"), bad),
        (with("X-Nul: a\0b"), bad),
        (with("X-Cr: a\rImpersonate-User: b"), bad),
        (with("NoColon"), bad),
        (
            with("Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.Zm9v"),
            bad,
        ),
        (format!("GET {root}/api HTTP/1.1\r\n{GOOD}\r\n\r\n"), bad),
        (
            format!("GET {root}/api HTTP/1.1\r\nHost: a@hub.test\r\n{GOOD}\r\n\r\n"),
            bad,
        ),
        (
            format!("GET {root}/api HTTP/1.0\r\nTransfer-Encoding: chunked\r\n{GOOD}\r\n\r\n"),
            bad,
        ),
    ] {
        let answer = rig.raw(HUB, request.as_bytes()).await;
        assert!(
            (400..500).contains(&answer.status),
            "{request:?}: {answer:?}"
        );
        assert_eq!(answer.code(), code, "{request:?}: {answer:?}");
    }
}

/// A proxy that takes `Content-Length` sends the rest of the body, and a server that takes the chunks must not serve the
/// rest as a request (RFC 9112, section 6.3).
#[tokio::test]
async fn request_with_two_lengths_is_the_last_one_of_its_connection() {
    let rig = Rig::start();
    let hidden = format!("GET /v1/whoami HTTP/1.1\r\nHost: {HUB}\r\n{GOOD}\r\n\r\n");
    let length = format!("Content-Length: {}", 5 + hidden.len());
    let chunked = "Transfer-Encoding: chunked".to_owned();
    for path in ["/v1/whoami", "/k8s/clusters/c-a/api"] {
        for lengths in [[&length, &chunked], [&chunked, &length]] {
            let [first, second] = lengths;
            let request = format!(
                "PUT {path} HTTP/1.1\r\nHost: {HUB}\r\n{GOOD}\r\n{first}\r\n{second}\r\n\r\n0\r\n\r\n{hidden}"
            );
            let mut tls = rig.connect(HUB, "http/1.1").await;
            tls.write_all(request.as_bytes()).await.unwrap();
            tls.flush().await.unwrap();
            let answer = RawAnswer::read(&mut tls).await.unwrap();
            assert_refused(&answer, 400, "FL-1304");
            let mut rest = Vec::new();
            // The end may be a reset, because the hidden request is never read.
            let _ = tls.read_to_end(&mut rest).await;
            assert!(rest.is_empty(), "{request}: {rest:?}");
        }
    }
}

#[tokio::test]
async fn heads_that_are_too_large_are_refused() {
    let rig = Rig::start();
    let long = format!("X-Long: {}\r\n", "x".repeat(70_000));
    let many = "X-Many: 1\r\n".repeat(93);
    for headers in [&long, &many] {
        let answer = rig.get(HUB, "/v1/whoami", headers).await;
        assert_eq!((answer.status, answer.code()), (431, "FL-1306"));
    }
    // The parser takes at most 100 fields.
    for count in [101, 120, 5_000] {
        let too_many = "X-Many: 1\r\n".repeat(count);
        let answer = rig.get(HUB, "/v1/whoami", &too_many).await;
        assert_refused(&answer, 431, "FL-1306");
    }
    let endless = format!("X-Long: {}\r\n", "x".repeat(300_000));
    let mut tls = rig.connect(HUB, "http/1.1").await;
    // The gateway may stop reading before all is sent.
    let _ = tls
        .write_all(format!("GET / HTTP/1.1\r\n{endless}").as_bytes())
        .await;
    let answer = timeout(TEST_DEADLINE, RawAnswer::read(&mut tls)).await;
    assert_refused(&answer.unwrap().unwrap(), 431, "FL-1306");
}

/// A refusal that kubectl and a person can read, on a connection that ends.
fn assert_refused(answer: &RawAnswer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code()), (status, code));
    assert_eq!(answer.header("connection"), Some("close"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(
        (&body["kind"], &body["code"]),
        (&"Status".into(), &status.into())
    );
    let message = body["message"].as_str().unwrap();
    assert!(message.ends_with(&format!(". ({code})")), "{message}");
}

#[tokio::test]
async fn unreadable_heads_are_refused_with_a_code() {
    let rig = Rig::start();
    for head in [
        "GET /\r\n\r\n",
        "no HTTP at all\r\n\r\n",
        "GET / HTTP/1.1\r\nA\r\n\r\n",
    ] {
        let answer = rig.raw(HUB, head.as_bytes()).await;
        assert_refused(&answer, 400, "FL-1304");
    }
}

#[tokio::test]
async fn second_head_of_a_connection_is_refused_with_a_code() {
    let rig = Rig::start();
    let mut tls = rig.connect(HUB, "http/1.1").await;
    for (many, status) in [(0, 200), (120, 431)] {
        let fields = "X-Many: 1\r\n".repeat(many);
        let head = format!("GET /v1/whoami HTTP/1.1\r\nHost: {HUB}\r\n{GOOD}\r\n{fields}\r\n");
        tls.write_all(head.as_bytes()).await.unwrap();
        let answer = timeout(TEST_DEADLINE, RawAnswer::read(&mut tls)).await;
        let answer = answer.unwrap().unwrap();
        match status {
            200 => assert_eq!(answer.status, 200),
            _ => assert_refused(&answer, 431, "FL-1306"),
        }
    }
}

#[tokio::test]
async fn requests_before_an_answer_are_answered_in_their_order() {
    let rig = Rig::start();
    let mut tls = rig.connect(HUB, "http/1.1").await;
    let request =
        |line: &str, rest: &str| format!("{line} HTTP/1.1\r\nHost: {HUB}\r\n{GOOD}\r\n{rest}");
    let sent = [
        request("GET /v1/whoami", "\r\n"),
        request("PUT /v1/whoami", "Content-Length: 3\r\n\r\nabc"),
        request("GET /nothing", "\r\n"),
        request("GET /v1/whoami", "Connection: close\r\n\r\n"),
        request("GET /v1/whoami", "\r\n"),
    ];
    tls.write_all(sent.concat().as_bytes()).await.unwrap();
    tls.flush().await.unwrap();
    for (status, connection) in [(200, None), (405, None), (404, None), (200, Some("close"))] {
        let answer = timeout(TEST_DEADLINE, RawAnswer::read(&mut tls)).await;
        let answer = answer.unwrap().unwrap();
        assert_eq!(
            (answer.status, answer.header("connection")),
            (status, connection)
        );
        assert!(answer.header("date").is_some());
    }
    let mut rest = Vec::new();
    let ended = timeout(TEST_DEADLINE, tls.read_to_end(&mut rest)).await;
    ended.unwrap().unwrap();
    assert!(rest.is_empty(), "the last request is not served");
}

#[tokio::test]
async fn client_of_http_1_0_gets_one_answer() {
    let rig = Rig::start();
    let request = format!("GET /v1/whoami HTTP/1.0\r\nHost: {HUB}\r\n{GOOD}\r\n\r\n");
    let mut tls = rig.connect(HUB, "http/1.1").await;
    tls.write_all(request.as_bytes()).await.unwrap();
    tls.flush().await.unwrap();
    let mut answer = String::new();
    let ended = timeout(TEST_DEADLINE, tls.read_to_string(&mut answer)).await;
    ended.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nada"), "{answer}");
}
