//! From a client's socket through the gateway and a session to an agent, and back.

use std::{io::ErrorKind, time::Duration};

use fairlead_api::resources::ClusterState;
use fairlead_dialer::CloseReason;
use http::{Request, header};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    client::{ROOT, all_back_to_zero, head, open, read_until, rest, status},
    rig::{HUB, RawAnswer, Rig},
};
use fairlead_testkit::agent::{FakeAgent, data};

#[tokio::test]
async fn agent_gets_the_caller_and_none_of_the_clients_claims() {
    let rig = Rig::start();
    let _agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let claims = "Cookie: a=b\r\nX-Remote-User: root\r\nFairlead-User: root\r\nX-Forwarded-For: 1.1.1.1\r\n\
        Connection: x-mine\r\nX-Mine: 1\r\nAccept-Encoding: gzip\r\nUser-Agent: kubectl\r\n";
    let answer = rig.get(HUB, &format!("{ROOT}/headers"), claims).await;
    let text = answer.text();
    let mut lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("audit-id: "))
        .collect();
    lines.retain(|line| !line.starts_with("content-length") && !line.starts_with("connection"));
    assert_eq!(
        lines,
        [
            "accept-encoding: gzip",
            "fairlead-group: fairlead:admin",
            "fairlead-group: fairlead:tenant:t-acme:admin",
            "fairlead-user: fairlead:ada",
            "host: kubernetes.default.svc",
            "user-agent: kubectl",
        ]
    );
}

#[tokio::test]
async fn impersonated_user_replaces_the_admins_names() {
    let rig = Rig::start();
    let _agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let headers = "Impersonate-User: fairlead:someone\r\nFairlead-As: root\r\n";
    let answer = rig.get(HUB, &format!("{ROOT}/headers"), headers).await;
    let text = answer.text();
    let who = |line: &&str| line.starts_with("fairlead-") || line.starts_with("impersonate");
    let lines: Vec<&str> = text.lines().filter(who).collect();
    assert_eq!(lines, ["fairlead-as: fairlead:someone"]);
}

#[tokio::test]
async fn path_and_query_arrive_as_the_api_server_has_them() {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let by_name = "c-a.clusters.hub.test";
    for (sni, path, seen) in [
        (
            HUB,
            "/k8s/clusters/c-a/api/v1?a=%2F..//b&c",
            "GET /api/v1?a=%2F..//b&c",
        ),
        (HUB, "/k8s/clusters/c-a", "GET /"),
        (by_name, "/api?watch=1", "GET /api?watch=1"),
        (by_name, "/k8s/clusters/c-b/x", "GET /k8s/clusters/c-b/x"),
    ] {
        assert_eq!(rig.get(sni, path, "").await.status, 200);
        assert_eq!(agent.saw("GET").await, seen);
    }
}

#[tokio::test]
async fn answers_of_the_api_server_pass_unchanged() {
    let rig = Rig::start();
    let _agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let get = async |path: &str| rig.get(HUB, &format!("{ROOT}{path}"), "").await;
    let found = get("/not-found").await;
    assert_eq!(
        (found.status, found.text().as_str(), found.code()),
        (404, "no such thing", "none")
    );
    assert_eq!(found.header("content-type"), Some("text/x"));
    let unchanged = get("/unchanged").await;
    assert_eq!(
        (unchanged.status, unchanged.header("etag")),
        (304, Some("\"7\""))
    );
    assert_eq!(get("/gzip").await.header("content-encoding"), Some("gzip"));
    let liar = get("/liar").await;
    assert!(!liar.head.contains("fairlead"), "{}", liar.head);

    let mut tls = open(&rig, &head("HEAD", "/not-found", "")).await;
    let answer = read_until(&mut tls, "\r\n\r\n").await;
    assert!(answer.contains("content-length: 13"), "{answer}");
    // No body byte between this answer and the next.
    tls.write_all(head("GET", "/next", "").as_bytes())
        .await
        .unwrap();
    assert_eq!(RawAnswer::read(&mut tls).await.unwrap().text(), "/next");

    let mut tls = open(&rig, &head("GET", "/trailers", "TE: trailers\r\n")).await;
    let all = read_until(&mut tls, "grpc-status: 0\r\n\r\n").await;
    assert!(all.contains("body"), "{all}");
}

#[tokio::test]
async fn client_cannot_send_the_hubs_own_requests() {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let by_path = format!("{ROOT}/.fairlead/probe");
    for (address, path) in [
        (HUB, by_path.as_str()),
        ("c-a.clusters.hub.test", "/.fairlead/probe"),
        ("c-a.clusters.hub.test", "/.fairlead/anything?x=1"),
    ] {
        let answer = rig.get(address, path, "").await;
        assert_eq!((answer.status, answer.code()), (400, "FL-1303"), "{path}");
    }
    assert_eq!(rig.get(HUB, &format!("{ROOT}/next"), "").await.status, 200);
    assert_eq!(
        agent.saw("GET").await,
        "GET /next",
        "the agent got no other request"
    );
}

#[tokio::test]
async fn nginx_passes_each_piece_of_a_long_answer_on() {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let _more = agent.next_stream();
    let mut watch = open(&rig, &head("GET", "/stream", "")).await;
    let answer = read_until(&mut watch, "\r\n\r\n").await.to_lowercase();
    assert!(answer.contains("x-accel-buffering: no\r\n"), "{answer}");
    let whole = rig.get(HUB, &format!("{ROOT}/who"), "").await;
    assert_eq!(whole.header("x-accel-buffering"), None);
}

#[tokio::test]
async fn redirect_stays_at_its_cluster_or_is_refused() {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let redirect = |status: u16, target: &str| {
        let headers = vec![
            ("location", target.to_owned()),
            ("set-cookie", "a=b".to_owned()),
            ("refresh", "0; url=//evil.test".to_owned()),
        ];
        *agent.api.redirect.lock().unwrap() = (status, headers);
    };
    let by_path = format!("{ROOT}/redirect");
    let by_name = "c-a.clusters.hub.test";
    for (address, path, location) in [
        (HUB, by_path.as_str(), "/k8s/clusters/c-a/api/v1?a=1"),
        (by_name, "/redirect", "/api/v1?a=1"),
    ] {
        redirect(307, "/api/v1?a=1");
        let answer = rig.get(address, path, "").await;
        let found = (answer.status, answer.header("location"));
        assert_eq!(found, (307, Some(location)));
        assert_eq!(answer.header("set-cookie"), None);
        assert_eq!(answer.header("refresh"), None);
        for target in [
            "http://evil.test/",
            "https://hub.test/k8s/clusters/c-b/api",
            "//evil.test/",
            "/../c-b/api",
            "relative",
        ] {
            redirect(307, target);
            let answer = rig.get(address, path, "").await;
            assert_eq!((answer.status, answer.code()), (502, "FL-1507"), "{target}");
            assert!(!answer.head.contains("location"), "{}", answer.head);
        }
    }
}

#[tokio::test]
async fn a_watch_is_flushed_at_once_head_first() {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let events = agent.next_stream();
    let mut tls = open(&rig, &head("GET", "/stream", "")).await;
    read_until(&mut tls, "\r\n\r\n").await;
    for event in ["one", "two"] {
        events.send(data(event)).await.unwrap();
        read_until(&mut tls, &format!("{event}\r\n")).await;
    }
    drop(events);
    read_until(&mut tls, "0\r\n\r\n").await;
    drop(tls);
    all_back_to_zero(&rig).await;
    // The watch, and the agent's own request.
    assert_eq!(rig.metric("fairlead_requests_total", &["ok"]), 2.0);
}

#[tokio::test]
async fn early_answer_arrives_before_the_upload_ends() {
    let rig = Rig::start();
    let _agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let request = head("POST", "/early", "Transfer-Encoding: chunked\r\n") + "3\r\nabc\r\n";
    let mut tls = open(&rig, &request).await;
    read_until(&mut tls, "early \r\n").await;
    tls.write_all(b"4\r\ndefg\r\n0\r\n\r\n").await.unwrap();
    let end = read_until(&mut tls, "0\r\n\r\n").await;
    assert!(end.contains("\r\n7\r\n"), "{end}");
}

#[tokio::test]
async fn expect_100_continue_is_answered_before_the_upload() {
    let rig = Rig::start();
    let _agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let request = head(
        "POST",
        "/collect",
        "Content-Length: 3\r\nExpect: 100-continue\r\n",
    );
    let mut tls = open(&rig, &request).await;
    assert!(
        read_until(&mut tls, "\r\n\r\n")
            .await
            .starts_with("HTTP/1.1 100")
    );
    tls.write_all(b"abc").await.unwrap();
    assert_eq!(RawAnswer::read(&mut tls).await.unwrap().text(), "Ok(3)");
}

#[tokio::test]
async fn break_after_the_head_is_never_a_clean_end() {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;

    let events = agent.next_stream();
    let mut tls = open(&rig, &head("GET", "/stream", "")).await;
    events.send(data("one")).await.unwrap();
    read_until(&mut tls, "one\r\n").await;
    events
        .send(Err("the API server went away".into()))
        .await
        .unwrap();
    let (more, end) = rest(&mut tls).await;
    assert!(!more.contains("0\r\n"), "no last chunk: {more:?}");
    assert_eq!(
        end.unwrap_err().kind(),
        ErrorKind::UnexpectedEof,
        "no close_notify"
    );

    // The same when the whole session ends.
    let events = agent.next_stream();
    let mut tls = open(&rig, &head("GET", "/stream", "")).await;
    events.send(data("one")).await.unwrap();
    read_until(&mut tls, "one\r\n").await;
    agent.session.close(CloseReason::Done);
    let (more, end) = rest(&mut tls).await;
    assert!(!more.contains("0\r\n"), "no last chunk: {more:?}");
    assert!(end.is_err());
    all_back_to_zero(&rig).await;
    assert_eq!(rig.metric("fairlead_requests_total", &["aborted"]), 2.0);
}

#[tokio::test]
async fn a_break_resets_the_stream_of_an_http2_client_and_no_other() {
    let rig = Rig::start();
    let agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let tls = rig.connect(HUB, "h2").await;
    let (mut sender, connection) =
        http2::handshake::<_, _, Empty<bytes::Bytes>>(TokioExecutor::new(), TokioIo::new(tls))
            .await
            .unwrap();
    tokio::spawn(connection);
    let mut get = async |path: &str| {
        let request = Request::builder()
            .uri(format!("https://{HUB}{ROOT}{path}"))
            .header(header::AUTHORIZATION, "Bearer good")
            .body(Empty::new())
            .unwrap();
        sender.send_request(request).await.unwrap().into_body()
    };
    let events = agent.next_stream();
    let mut body = get("/stream").await;
    events.send(data("one")).await.unwrap();
    assert_eq!(
        body.frame().await.unwrap().unwrap().into_data().unwrap(),
        "one"
    );
    events
        .send(Err("the API server went away".into()))
        .await
        .unwrap();
    assert!(body.frame().await.unwrap().is_err(), "a reset, not an end");
    let other = get("/other").await.collect().await.unwrap().to_bytes();
    assert_eq!(other, "/other");
}

#[tokio::test]
async fn an_upgrade_is_spliced_with_half_close() {
    let rig = Rig::start();
    let _agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let upgrade = head(
        "POST",
        "/echo",
        "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n",
    );
    let mut tls = open(&rig, &upgrade).await;
    let switched = read_until(&mut tls, "\r\n\r\n").await.to_lowercase();
    assert!(switched.starts_with("http/1.1 101"), "{switched}");
    for line in [
        "upgrade: spdy/3.1",
        "connection: upgrade",
        "x-stream-protocol-version: v4",
    ] {
        assert!(switched.contains(line), "{switched}");
    }
    tls.write_all(b"hello").await.unwrap();
    read_until(&mut tls, "hello").await;
    tls.shutdown().await.unwrap();
    let (more, end) = rest(&mut tls).await;
    assert_eq!(
        (more.as_str(), end.unwrap()),
        ("bye", 3),
        "data after our end still arrives"
    );
    drop(tls);
    all_back_to_zero(&rig).await;
}

#[tokio::test]
async fn plain_listener_behaves_like_the_tls_one() {
    let rig = Rig::start();
    let _agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let mut tcp = TcpStream::connect(rig.plain).await.unwrap();
    tcp.write_all(head("GET", "/readyz", "").as_bytes())
        .await
        .unwrap();
    assert_eq!(RawAnswer::read(&mut tcp).await.unwrap().status, 200);
    let upgrade = head(
        "GET",
        "/echo",
        "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n",
    );
    tcp.write_all(upgrade.as_bytes()).await.unwrap();
    let switched = read_until(&mut tcp, "\r\n\r\n").await;
    assert!(switched.starts_with("HTTP/1.1 101"), "{switched}");
    tcp.write_all(b"hello").await.unwrap();
    read_until(&mut tcp, "hello").await;
    tcp.shutdown().await.unwrap();
    let (more, end) = rest(&mut tcp).await;
    assert_eq!((more.as_str(), end.unwrap()), ("bye", 3));
    drop(tcp);
    all_back_to_zero(&rig).await;
}

#[tokio::test]
async fn broken_upgrade_ends_with_a_reset() {
    let rig = Rig::start();
    let _agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let upgrade = head(
        "GET",
        "/echo",
        "Connection: Upgrade\r\nUpgrade: websocket\r\n",
    );
    let mut tls = open(&rig, &upgrade).await;
    read_until(&mut tls, "\r\n\r\n").await;
    tls.write_all(b"break").await.unwrap();
    let (more, end) = rest(&mut tls).await;
    assert_eq!(more, "");
    assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
    drop(tls);
    all_back_to_zero(&rig).await;
}

#[tokio::test]
async fn a_refused_upgrade_passes_unchanged() {
    let rig = Rig::start();
    let _agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    let answer = rig.get(HUB, &format!("{ROOT}/no-upgrade"), upgrade).await;
    assert_eq!(
        (answer.status, answer.text().as_str(), answer.code()),
        (403, "{\"no\":1}", "none")
    );
}

#[tokio::test]
async fn silence_before_the_head_has_a_deadline() {
    let rig = Rig::with(|config| config.limits.head_timeout = Duration::from_millis(100));
    let _agent = FakeAgent::of(rig.access(), "c-a").await;
    status(&rig, ClusterState::Connected).await;
    let answer = rig.get(HUB, &format!("{ROOT}/silent"), "").await;
    assert_eq!((answer.status, answer.code()), (504, "FL-1405"));
}
