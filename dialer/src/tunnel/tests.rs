//! Tests of tunnels: hub and agent in one process, over loopback.

use std::{
    convert::Infallible,
    future::ready,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioIo},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
    time::timeout,
};
use tower::service_fn;

use super::*;
use crate::{
    CloseReason, Code, Dialer, HubUrl, Limits, Session, SessionError,
    accept::{CONNECT_PATH, SUBPROTOCOL},
    rig::{FOREIGN, OURS, TestAuthority, agent_inner, agent_outer, hub_inner, hub_outer, until},
    sync::lock,
};

/// Deadline of each step, far beyond its time.
const STEP_DEADLINE: Duration = Duration::from_secs(30);

async fn soon<T>(step: impl Future<Output = T>) -> T {
    timeout(STEP_DEADLINE, step).await.expect("no end in time")
}

fn hub_tls() -> HubTls {
    HubTls {
        outer: Some(hub_outer()),
        inner: hub_inner(&OURS),
    }
}

/// Hub on loopback that decides by `decide`, and all agents that it has accepted. It ends with the set.
async fn hub(
    decide: fn(AgentCredentials) -> Result<usize, CloseReason>,
) -> (
    SocketAddr,
    mpsc::Receiver<AcceptedAgent<usize>>,
    JoinSet<()>,
) {
    let authenticate = move |agent| ready(decide(agent));
    let limits = Limits::default();
    let listener = AgentListener::bind("127.0.0.1:0", hub_tls(), limits, authenticate).await;
    let mut listener = listener.unwrap();
    let address = listener.local_addr().unwrap();
    let (accepted, agents) = mpsc::channel(4);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            let _ = accepted.send(listener.accept().await).await;
        }
    });
    (address, agents, tasks)
}

fn count_certificates(agent: AgentCredentials) -> Result<usize, CloseReason> {
    Ok(agent.certificates.len())
}

fn dialer() -> Dialer {
    Dialer::new(agent_outer(&OURS))
}

fn url(port: u16) -> HubUrl {
    format!("https://localhost:{port}").parse().unwrap()
}

/// Agent with a page and the targets in `allowed`. It ends with the set.
fn agent(hub: u16, identity: &TestAuthority, allowed: Vec<String>) -> JoinSet<Infallible> {
    let page = service_fn(|request: Request<Incoming>| async move {
        let path = request.uri().path().to_owned();
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(path)))
    });
    let server = StreamServer::new(page)
        .allow_targets(move |target| allowed.iter().any(|allowed| allowed == target));
    let inner = agent_inner(&OURS, Some(identity));
    let supervisor = SessionSupervisor::new(dialer(), url(hub), inner);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { supervisor.run(server).await });
    tasks
}

async fn page(session: &Session, path: &str) -> String {
    let client = Client::builder(TokioExecutor::new())
        .build::<_, Empty<Bytes>>(SessionConnector::new(session.clone()));
    let uri = format!("http://any.host{path}").parse().unwrap();
    let response = soon(client.get(uri)).await.unwrap();
    let body = soon(response.into_body().collect()).await.unwrap();
    String::from_utf8(body.to_bytes().to_vec()).unwrap()
}

/// Relay to an address that may change; its connections can be cut.
struct Relay {
    port: u16,
    address: Arc<Mutex<SocketAddr>>,
    connections: Arc<Mutex<JoinSet<()>>>,
    _listening: JoinSet<()>,
}

impl Relay {
    async fn to(address: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(Mutex::new(JoinSet::new()));
        let mut listening = JoinSet::new();
        let relayed = connections.clone();
        let shared = Arc::new(Mutex::new(address));
        let address = shared.clone();
        listening.spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let address = *lock(&address);
                lock(&relayed).spawn(async move {
                    let mut far = TcpStream::connect(address).await.unwrap();
                    let _ = copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        Relay {
            port,
            address: shared,
            connections,
            _listening: listening,
        }
    }

    fn cut(&self) {
        lock(&self.connections).abort_all();
    }
}

/// TCP target that returns each byte, and ends when its client does.
async fn echo() -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let name = listener.local_addr().unwrap().to_string();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = tcp.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    (name, tasks)
}

#[tokio::test]
async fn hub_reaches_page_and_allowed_targets_of_an_agent() {
    let (target, _echo) = echo().await;
    // Bound and not listening, so that nothing else listens there.
    let unused = tokio::net::TcpSocket::new_v4().unwrap();
    unused.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let dead = unused.local_addr().unwrap().to_string();
    let (address, mut agents, _hub) = hub(count_certificates).await;
    let _agent = agent(address.port(), &OURS, vec![target.clone(), dead.clone()]);
    let accepted = soon(agents.recv()).await.unwrap();
    assert_eq!(accepted.agent, 1, "certificates");
    assert!(accepted.address.ip().is_loopback());
    let session = accepted.session;
    assert_eq!(page(&session, "/a/page").await, "/a/page");

    let mut stream = soon(TargetStream::connect(&session, &target))
        .await
        .unwrap();
    stream.write_all(b"to and fro").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut returned = String::new();
    soon(stream.read_to_string(&mut returned)).await.unwrap();
    assert_eq!(returned, "to and fro");

    for (target, expected) in [
        ("127.0.0.1:1", StatusCode::FORBIDDEN),
        (dead.as_str(), StatusCode::BAD_GATEWAY),
    ] {
        let refused = soon(TargetStream::connect(&session, target)).await;
        let Err(TargetError::Refused { status, cause }) = refused else {
            panic!("{target} was not refused");
        };
        assert_eq!(status, expected, "{target}: {cause}");
        assert!(!cause.is_empty());
    }
    for invalid in [
        "",
        "host",
        "user@host:1",
        "host:1/path",
        "host:99999",
        "a b:1",
    ] {
        let refused = TargetStream::connect(&session, invalid).await;
        let is_refused = matches!(refused, Err(TargetError::Name(name)) if name == invalid);
        assert!(is_refused, "{invalid:?}");
    }
}

#[tokio::test]
async fn refused_agent_gets_the_reason_and_is_not_returned() {
    let (address, mut agents, _hub) = hub(|_| Err(CloseReason::Revoked)).await;
    let inner = agent_inner(&OURS, Some(&OURS));
    let dialed = soon(dialer().dial(&url(address.port()), inner))
        .await
        .unwrap();
    let end = soon(dialed.session.closed()).await;
    assert!(
        matches!(end, SessionError::Peer(CloseReason::Revoked)),
        "{end}"
    );
    let inner = agent_inner(&OURS, Some(&FOREIGN));
    let error = soon(dialer().dial(&url(address.port()), inner))
        .await
        .err()
        .unwrap();
    assert_eq!(error.code, Code::DialIdentity);
    assert!(agents.try_recv().is_err());
}

#[tokio::test]
async fn session_and_its_connections_outlive_a_cut() {
    let (target, _echo) = echo().await;
    let (address, mut agents, _hub) = hub(count_certificates).await;
    let relay = Relay::to(address).await;
    let _agent = agent(relay.port, &OURS, vec![target.clone()]);
    let session = soon(agents.recv()).await.unwrap().session;
    let mut stream = soon(TargetStream::connect(&session, &target))
        .await
        .unwrap();
    for resumed in 1..=3 {
        relay.cut();
        stream.write_all(b"over the cut").await.unwrap();
        let mut returned = [0; 12];
        soon(stream.read_exact(&mut returned)).await.unwrap();
        assert_eq!(&returned, b"over the cut");
        until(|| session.stats().resumptions >= resumed).await;
    }
    assert!(agents.try_recv().is_err(), "the same session");
}

#[tokio::test]
async fn agent_dials_anew_after_its_session_or_its_hub_has_ended() {
    let (address, mut agents, hub_tasks) = hub(count_certificates).await;
    let relay = Relay::to(address).await;
    let _agent = agent(relay.port, &OURS, Vec::new());
    let first = soon(agents.recv()).await.unwrap().session;
    first.close(CloseReason::Draining);
    let second = soon(agents.recv()).await.unwrap().session;
    assert_eq!(page(&second, "/second").await, "/second");

    // Another hub in its place knows no session.
    let (address, mut agents, _hub) = hub(count_certificates).await;
    *lock(&relay.address) = address;
    drop(hub_tasks);
    relay.cut();
    let third = soon(agents.recv()).await.unwrap().session;
    assert_eq!(page(&third, "/third").await, "/third");
}

#[tokio::test]
async fn broken_tunnel_resets_both_tcp_connections() {
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let name = target.local_addr().unwrap().to_string();
    let local = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let entrance = local.local_addr().unwrap();
    let (address, mut agents, _hub) = hub(count_certificates).await;
    let mut agent = agent(address.port(), &OURS, vec![name.clone()]);
    let session = soon(agents.recv()).await.unwrap().session;
    let (client, accepted) = tokio::join!(TcpStream::connect(entrance), local.accept());
    let (mut client, (tcp, _)) = (client.unwrap(), accepted.unwrap());
    let forwarding = tokio::spawn(forward(session.clone(), name, tcp));
    client.write_all(b"x").await.unwrap();
    let (mut server, _) = soon(target.accept()).await.unwrap();
    assert_eq!(soon(server.read_u8()).await.unwrap(), b'x');

    agent.shutdown().await;
    for tcp in [&mut client, &mut server] {
        let error = soon(tcp.read_u8()).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    let error = soon(forwarding).await.unwrap().unwrap_err();
    assert!(matches!(error, TargetError::Copy(_)), "{error}");

    // A connection that could not be forwarded is reset, too.
    let (client, accepted) = tokio::join!(TcpStream::connect(entrance), local.accept());
    let error = soon(forward(session, "host:1".to_owned(), accepted.unwrap().0)).await;
    assert!(matches!(error, Err(TargetError::Open(_))));
    let error = soon(client.unwrap().read_u8()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn other_requests_get_a_status_and_the_end_of_the_connection() {
    let tls = HubTls {
        outer: None,
        ..hub_tls()
    };
    let authenticate = |_| ready(Ok::<_, CloseReason>(()));
    let listener = AgentListener::bind("127.0.0.1:0", tls, Limits::default(), authenticate).await;
    let mut listener = listener.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        listener.accept().await;
    });
    for (path, version, expected) in [
        ("/", "13", StatusCode::NOT_FOUND),
        (CONNECT_PATH, "12", StatusCode::UPGRADE_REQUIRED),
        (CONNECT_PATH, "13", StatusCode::SWITCHING_PROTOCOLS),
    ] {
        let tcp = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(tcp)).await.unwrap();
        tasks.spawn(async move {
            let _ = connection.with_upgrades().await;
        });
        let request = Request::get(path)
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", version)
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
            .header("sec-websocket-protocol", SUBPROTOCOL);
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        let response = soon(sender.send_request(request)).await.unwrap();
        assert_eq!(response.status(), expected);
        if expected != StatusCode::SWITCHING_PROTOCOLS {
            assert_eq!(response.headers()["connection"], "close");
        }
    }
}

#[test]
fn unusable_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let of = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        rcgen::generate_simple_self_signed(names).unwrap()
    };
    let (ours, other) = (of(&["hub"]), of(&["other"]));
    std::fs::write(path("hub.pem"), ours.cert.pem()).unwrap();
    std::fs::write(path("hub.key"), ours.signing_key.serialize_pem()).unwrap();
    std::fs::write(path("other.key"), other.signing_key.serialize_pem()).unwrap();
    std::fs::write(path("empty.pem"), "").unwrap();
    let from = |chain, key, agents| HubTls::from_files(path(chain), path(key), path(agents)).err();
    assert!(from("hub.pem", "hub.key", "hub.pem").is_none());
    let error = from("none.pem", "hub.key", "hub.pem");
    assert!(
        matches!(error, Some(TlsFilesError::Unreadable { path, .. }) if path.ends_with("none.pem"))
    );
    let error = from("hub.pem", "hub.pem", "hub.pem");
    assert!(
        matches!(error, Some(TlsFilesError::Unreadable { path, .. }) if path.ends_with("hub.pem"))
    );
    let error = from("hub.pem", "hub.key", "empty.pem");
    assert!(
        matches!(error, Some(TlsFilesError::NoCertificate(path)) if path.ends_with("empty.pem"))
    );
    let error = from("hub.pem", "other.key", "hub.pem");
    assert!(matches!(error, Some(TlsFilesError::Unusable(_))));
    let error = AgentTls::from_files(path("hub.pem"), path("other.key"), path("hub.pem")).err();
    assert!(matches!(error, Some(TlsFilesError::Unusable(_))));
}
