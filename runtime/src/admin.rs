//! The admin port: `/healthz` (the process runs), `/readyz` (it takes work), `/metrics` (Prometheus or OpenMetrics text),
//! `/metrics/help` (meaning of each metric). Plain HTTP, so it belongs on loopback or on a network of its own.

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use prometheus::TextEncoder;
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::sleep,
};
use tracing::{debug, warn};

#[cfg(target_os = "linux")]
use crate::process_metrics::ProcessMetrics;
use crate::{listen, openmetrics, process::Process};

const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// Limit of a head in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// Connections at the same time; further ones are closed at once.
const MAX_CONNECTIONS: usize = 256;
/// Connections of one address, so that others still reach health and metrics.
const MAX_CONNECTIONS_PER_ADDRESS: usize = 32;
/// Lifetime of a connection, however slowly its client reads.
const MAX_CONNECTION_AGE: Duration = Duration::from_secs(300);

/// Open connections by address; clones share them.
#[derive(Clone, Default)]
struct Connections(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// Place of an open connection.
struct ConnectionPlace {
    connections: Connections,
    address: IpAddr,
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place, if there is one for this address.
    fn acquire(&self, address: IpAddr) -> Option<ConnectionPlace> {
        let mut open = self.open();
        let total: usize = open.values().sum();
        let own = open.entry(address).or_default();
        if total >= MAX_CONNECTIONS || *own >= MAX_CONNECTIONS_PER_ADDRESS {
            if *own == 0 {
                open.remove(&address);
            }
            return None;
        }
        *own += 1;
        Some(ConnectionPlace {
            connections: self.clone(),
            address,
        })
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        if let Some(own) = open.get_mut(&self.address) {
            *own -= 1;
            if *own == 0 {
                open.remove(&self.address);
            }
        }
    }
}

/// Serves the admin routes, and `more` beside them, until the process drains. Metrics of the process itself are
/// included.
pub async fn serve(listener: TcpListener, process: Process, more: Router) {
    #[cfg(target_os = "linux")]
    if let Err(error) = process.measure(ProcessMetrics::new()) {
        warn!(%error, "process metrics cannot be registered");
    }
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/metrics/help", get(help))
        .with_state(process.clone())
        .merge(more);
    let (owner, service) = (process.clone(), TowerToHyperService::new(router));
    let connections = Connections::default();
    listen::accept_loop(
        listener,
        &process,
        process.draining(),
        move |socket, peer| {
            let place = connections.acquire(peer.ip());
            connection(socket, peer, service.clone(), owner.clone(), place)
        },
    )
    .await;
}

async fn connection(
    socket: TcpStream,
    peer: SocketAddr,
    service: TowerToHyperService<Router>,
    process: Process,
    place: Option<ConnectionPlace>,
) {
    let Some(_place) = place else {
        return debug!(%peer, "too many admin connections");
    };
    let mut server = auto::Builder::new(TokioExecutor::new()).http1_only();
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_buf_size(MAX_HEAD_BYTES);
    let connection = server.serve_connection(TokioIo::new(socket), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = process.draining() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = sleep(MAX_CONNECTION_AGE) => return debug!(%peer, "admin connection is too old"),
    };
    if let Err(error) = ended {
        debug!(%peer, %error, "admin connection ended");
    }
}

async fn ready(State(process): State<Process>) -> Response {
    if process.is_ready() {
        "ok\n".into_response()
    } else if process.is_draining() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "starting\n").into_response()
    }
}

async fn metrics(State(process): State<Process>, headers: HeaderMap) -> Response {
    let accepted = headers.get(header::ACCEPT).and_then(|it| it.to_str().ok());
    if accepted.is_some_and(openmetrics::is_accepted) {
        let kind = [(header::CONTENT_TYPE, openmetrics::CONTENT_TYPE)];
        return (kind, process.registry().openmetrics()).into_response();
    }
    let mut text = String::new();
    match TextEncoder::new().encode_utf8(&process.registry().gather(), &mut text) {
        Ok(()) => (
            [(
                header::CONTENT_TYPE,
                "text/plain; version=0.0.4; charset=utf-8",
            )],
            text,
        )
            .into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn help(State(process): State<Process>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/markdown; charset=utf-8")];
    (kind, process.registry().describe()).into_response()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn get(address: std::net::SocketAddr, path: &str) -> String {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn one_address_cannot_open_connections_without_end() {
        let process = Process::new();
        let listener = listen::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve(listener, process.clone(), Router::new()));
        let mut open = Vec::new();
        for _ in 0..MAX_CONNECTIONS_PER_ADDRESS {
            let mut socket = TcpStream::connect(address).await.unwrap();
            socket
                .write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
                .await
                .unwrap();
            assert!(socket.read(&mut [0; 64]).await.unwrap() > 0);
            open.push(socket);
        }
        let mut refused = TcpStream::connect(address).await.unwrap();
        let read = refused.read(&mut [0; 64]).await;
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
        open.pop();
        for _ in 0..100 {
            let mut again = TcpStream::connect(address).await.unwrap();
            let sent = again
                .write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
                .await;
            if sent.is_ok() && matches!(again.read(&mut [0; 64]).await, Ok(1..)) {
                process.start_drain();
                drop((open, again));
                return serving.await.unwrap();
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("a free place is not used");
    }

    #[tokio::test]
    async fn large_head_is_refused() {
        let process = Process::new();
        let listener = listen::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve(listener, process.clone(), Router::new()));
        let mut socket = TcpStream::connect(address).await.unwrap();
        let head = format!("GET /{} HTTP/1.1\r\n", "x".repeat(2 * MAX_HEAD_BYTES));
        // The hub may end the connection before it has read everything.
        let _ = socket.write_all(head.as_bytes()).await;
        let mut status = [0; 10];
        let read = socket.read(&mut status).await;
        assert!(
            matches!(read, Ok(0) | Err(_)) || status.starts_with(b"HTTP/1.1 4"),
            "{status:?}"
        );
        process.start_drain();
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn readiness_follows_the_process() {
        let process = Process::new();
        let counter = prometheus::IntCounter::new("fairlead_test_total", "test").unwrap();
        process
            .registry()
            .register(Box::new(counter.clone()))
            .unwrap();
        counter.inc();
        let listener = listen::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve(listener, process.clone(), Router::new()));

        assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        let early = get(address, "/readyz").await;
        assert!(
            early.starts_with("HTTP/1.1 503") && early.ends_with("starting\n"),
            "{early}"
        );
        process.set_ready(true);
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        let help = get(address, "/metrics/help").await;
        assert!(help.contains("| `fairlead_test_total` | counter |  | test |"));
        let metrics = get(address, "/metrics").await;
        for name in [
            "fairlead_test_total 1",
            "process_resident_memory_bytes ",
            "process_cpu_seconds_total ",
            "process_open_fds ",
            "process_start_time_seconds ",
        ] {
            assert!(metrics.contains(name), "{name}: {metrics}");
        }

        process.start_drain();
        serving.await.unwrap();
    }
}
