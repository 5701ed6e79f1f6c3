//! The admin port: `/healthz` (the process runs), `/readyz` (it takes work), `/metrics` (Prometheus text format),
//! `/metrics/help` (meaning of each metric). Plain HTTP, so it belongs on loopback or on a network of its own.

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use prometheus::TextEncoder;
#[cfg(target_os = "linux")]
use prometheus::process_collector::ProcessCollector;
use std::{net::SocketAddr, time::Duration};
use tokio::net::{TcpListener, TcpStream};
use tracing::{debug, warn};

use crate::{listen, process::Process};

const HEAD_DEADLINE: Duration = Duration::from_secs(10);

/// Serves the admin routes, and `more` beside them, until the process drains. Metrics of the process itself are
/// included.
pub async fn serve(listener: TcpListener, process: Process, more: Router) {
    #[cfg(target_os = "linux")]
    if let Err(error) = process.measure(ProcessCollector::for_self()) {
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
    listen::accept_loop(
        listener,
        &process,
        process.draining(),
        move |socket, peer| connection(socket, peer, service.clone(), owner.clone()),
    )
    .await;
}

async fn connection(
    socket: TcpStream,
    peer: SocketAddr,
    service: TowerToHyperService<Router>,
    process: Process,
) {
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE);
    let connection = server.serve_connection(TokioIo::new(socket), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = process.draining() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
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

async fn metrics(State(process): State<Process>) -> Response {
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
