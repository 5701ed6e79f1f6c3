use std::{
    io,
    sync::atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use fairlead_api::tcp::{TCP_PROTOCOL, TcpTarget};
use fairlead_dialer::{
    ProxyRules,
    accept::{websocket_connect_response, websocket_response},
    byte_socket::ByteSocket,
    websocket::SocketRole,
};
use fairlead_testkit::{tls::ServerTls, wait};
use http::{Request, Response, Version};
use http_body_util::Empty;
use hyper::{body::Incoming, server::conn, service::service_fn, upgrade};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::{HubClient, TcpTunnel};

/// Hub whose TCP connections all lead to an echo.
struct EchoHub {
    client: HubClient,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    http1: AtomicUsize,
    http2: AtomicUsize,
    /// WebSockets over HTTP/2.
    streams: AtomicUsize,
    answered: Notify,
}

/// Answer to HTTP/2 at the hub, or in front of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Http2 {
    /// With WebSockets.
    Full,
    /// A load balancer without RFC 8441.
    NoWebSockets,
    /// A load balancer with HTTP/1.1 only.
    Refused,
    /// Each connection ends after its first answer.
    OneAnswer,
    /// Each stream is reset before an answer.
    Reset,
}

impl EchoHub {
    async fn start(http2: Http2) -> Self {
        let ServerTls { server, ca_pem } = ServerTls::new("hub").unwrap();
        let mut server = (*server).clone();
        if http2 != Http2::Refused {
            server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        }
        let tls = TlsAcceptor::from(Arc::new(server));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let counts = Arc::new(Counts::default());
        let counted = Arc::clone(&counts);
        tokio::spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let (tls, counts) = (tls.clone(), Arc::clone(&counted));
                tokio::spawn(async move {
                    // A client without HTTP/1.1 leaves.
                    if let Ok(io) = tls.accept(tcp).await {
                        serve(io, counts, http2).await;
                    }
                });
            }
        });
        let client = HubClient::new(
            url.parse().unwrap(),
            "secret".into(),
            Some(ca_pem),
            ProxyRules::default(),
        );
        let client = client.unwrap();
        EchoHub { client, counts }
    }

    async fn open(&self, shared: &SharedConnections) -> TcpTunnel {
        let cluster = "c-crisp-lake-0587".parse().unwrap();
        let target = TcpTarget::of_input("127.0.0.1", 22).unwrap();
        let opened = self.client.open_tcp_shared(&cluster, &target, shared);
        let mut tunnel = opened.await.unwrap();
        tunnel.socket.write_all(b"ping").await.unwrap();
        tunnel.socket.flush().await.unwrap();
        let mut pong = [0; 4];
        tunnel.socket.read_exact(&mut pong).await.unwrap();
        assert_eq!(&pong, b"ping");
        tunnel
    }

    /// Connections by HTTP/1.1 and HTTP/2, and WebSockets over HTTP/2.
    fn counts(&self) -> (usize, usize, usize) {
        let count = |it: &AtomicUsize| it.load(Ordering::SeqCst);
        let Counts {
            http1,
            http2,
            streams,
            ..
        } = &*self.counts;
        (count(http1), count(http2), count(streams))
    }
}

async fn serve(
    io: tokio_rustls::server::TlsStream<tokio::net::TcpStream>,
    counts: Arc<Counts>,
    http2: Http2,
) {
    let is_http2 = io.get_ref().1.alpn_protocol() == Some(b"h2");
    let streams = Arc::clone(&counts);
    let service = service_fn(move |request| {
        let answer = match is_http2 && http2 == Http2::Reset {
            true => Err(io::Error::from(io::ErrorKind::Other)),
            false => Ok(echo(request, &streams)),
        };
        async { answer }
    });
    let io = TokioIo::new(io);
    if !is_http2 {
        counts.http1.fetch_add(1, Ordering::SeqCst);
        let serving = conn::http1::Builder::new().serve_connection(io, service);
        return drop(serving.with_upgrades().await);
    }
    counts.http2.fetch_add(1, Ordering::SeqCst);
    let mut builder = conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new());
    if http2 != Http2::NoWebSockets {
        builder.enable_connect_protocol();
    }
    let mut serving = std::pin::pin!(builder.serve_connection(io, service));
    if http2 == Http2::OneAnswer {
        tokio::select! {
            _ = serving.as_mut() => return,
            () = counts.answered.notified() => serving.as_mut().graceful_shutdown(),
        }
    }
    drop(serving.await);
}

/// Answers a WebSocket, and returns its bytes.
fn echo(mut request: Request<Incoming>, counts: &Counts) -> Response<Empty<Bytes>> {
    assert_eq!(request.headers()["authorization"], "Bearer secret");
    let path = "/v1/clusters/c-crisp-lake-0587/tcp/127.0.0.1:22";
    assert_eq!(request.uri().path(), path);
    let answer = match request.version() {
        Version::HTTP_2 => {
            counts.streams.fetch_add(1, Ordering::SeqCst);
            counts.answered.notify_one();
            websocket_connect_response(&request, TCP_PROTOCOL)
        }
        _ => websocket_response(&request, TCP_PROTOCOL),
    };
    let upgrading = upgrade::on(&mut request);
    tokio::spawn(async move {
        let upgraded = TokioIo::new(upgrading.await.unwrap());
        let mut socket = ByteSocket::new(upgraded, SocketRole::Hub, &[]);
        let mut bytes = [0; 64];
        while let Ok(read @ 1..) = socket.read(&mut bytes).await {
            socket.write_all(&bytes[..read]).await.unwrap();
            socket.flush().await.unwrap();
        }
    });
    answer.unwrap().map(|()| Empty::new())
}

impl SharedConnections {
    /// Connections after several brief ones, which stay recent however slow the test is.
    fn busy(hub: &EchoHub) -> Self {
        let shared = SharedConnections::new(&hub.client).unwrap();
        let end = Instant::now() + Duration::from_secs(3600);
        shared.lock().brief_ends = [end; MIN_BRIEF].into();
        shared
    }
}

/// Waits for a connection with this many free places.
async fn until_open(shared: &SharedConnections, places: usize) {
    wait::until(async || {
        let state = shared.lock();
        let free = state.connections.iter();
        free.map(|it| it.streams.available_permits()).sum::<usize>() == places
    })
    .await;
}

#[tokio::test]
async fn connections_after_the_first_share_four_streams_each() {
    let hub = EchoHub::start(Http2::Full).await;
    let shared = SharedConnections::busy(&hub);
    let first = hub.open(&shared).await;
    until_open(&shared, MAX_STREAMS).await;
    assert_eq!(hub.counts(), (1, 1, 0));
    let mut tunnels = Vec::new();
    for _ in 0..MAX_STREAMS {
        tunnels.push(hub.open(&shared).await);
    }
    assert_eq!(hub.counts(), (1, 1, MAX_STREAMS));
    // The next one does not wait for another connection.
    tunnels.push(hub.open(&shared).await);
    until_open(&shared, MAX_STREAMS).await;
    tunnels.push(hub.open(&shared).await);
    assert_eq!(hub.counts(), (2, 2, MAX_STREAMS + 1));
    drop((first, tunnels));
    until_open(&shared, 2 * MAX_STREAMS).await;
}

#[tokio::test]
async fn hub_without_websockets_over_http2_is_tried_once() {
    for http2 in [Http2::NoWebSockets, Http2::Refused] {
        let hub = EchoHub::start(http2).await;
        let shared = SharedConnections::busy(&hub);
        for _ in 0..2 {
            drop(hub.open(&shared).await);
        }
        // It ends with its deadline.
        let (tries, _, streams) = hub.counts();
        assert_eq!((tries, streams), (2, 0));
        assert!(!matches!(shared.lock().next, Next::Allowed));
    }
}

#[tokio::test]
async fn connection_that_ended_is_replaced() {
    let hub = EchoHub::start(Http2::OneAnswer).await;
    let shared = SharedConnections::busy(&hub);
    drop(hub.open(&shared).await);
    until_open(&shared, MAX_STREAMS).await;
    drop(hub.open(&shared).await);
    wait::until(async || {
        shared
            .lock()
            .connections
            .iter()
            .all(|it| it.requests.is_closed())
    })
    .await;
    drop(hub.open(&shared).await);
    assert_eq!(hub.counts().0, 2, "on a connection of its own");
    wait::until(async || hub.counts().1 == 2).await;
}

#[tokio::test]
async fn stream_without_an_answer_becomes_a_connection() {
    let hub = EchoHub::start(Http2::Reset).await;
    let shared = SharedConnections::busy(&hub);
    let first = hub.open(&shared).await;
    until_open(&shared, MAX_STREAMS).await;
    drop((first, hub.open(&shared).await));
    assert_eq!(hub.counts(), (2, 1, 0));
}

#[tokio::test]
async fn connection_without_streams_is_given_up() {
    let hub = EchoHub::start(Http2::Full).await;
    let shared = SharedConnections::busy(&hub);
    drop(hub.open(&shared).await);
    until_open(&shared, MAX_STREAMS).await;
    let tunnel = hub.open(&shared).await;
    let streams = Arc::clone(&shared.lock().connections[0].streams);
    let stays_after = |idle: Duration| {
        shared.lock().connections[0].used = Instant::now() - idle;
        shared.drop_unused(&streams);
        !shared.lock().connections.is_empty()
    };
    assert!(stays_after(IDLE_TIMEOUT), "it has a stream");
    drop(tunnel);
    assert!(stays_after(Duration::ZERO), "it was used now");
    assert!(!stays_after(IDLE_TIMEOUT));
}

#[tokio::test(start_paused = true)]
async fn streams_are_for_brief_connections_in_quick_succession() {
    let url = "https://127.0.0.1:1".parse().unwrap();
    let client = HubClient::new(url, "secret".into(), None, ProxyRules::default()).unwrap();
    let shared = SharedConnections::new(&client).unwrap();
    let expects_brief = || shared.lock().expects_brief();
    for number in 0..2 * MIN_BRIEF {
        let (_long, _) = shared.begin();
        tokio::time::advance(2 * BRIEF_LIMIT).await;
        assert!(!expects_brief(), "{number}");
    }
    for number in 0..MIN_BRIEF {
        assert!(!expects_brief(), "{number}");
        drop(shared.begin());
    }
    assert!(expects_brief());
    tokio::time::advance(BRIEF_INTERVAL + BRIEF_LIMIT).await;
    assert!(!expects_brief());
}
