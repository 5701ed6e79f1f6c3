//! HTTP/1.1 servers on loopback, with TLS of a throw-away CA or without.

use std::{
    error::Error,
    io,
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use anyhow::Context;
use hyper::{
    Request, Response,
    body::{Body, Incoming},
    server::conn::http1,
    service::Service,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Notify,
    task::JoinHandle,
    time,
};
use tokio_rustls::TlsAcceptor;

use crate::tls::ServerTls;

const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);
/// Pause after a failed accept. Without it, running out of file descriptors spins a core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections that the kernel queues; enough for thousands at once.
const LISTEN_BACKLOG: u32 = 4096;

/// A service that a test server can run; hyper's `service_fn` and wrapped tower services are such.
pub trait Answer<B>:
    Service<
        Request<Incoming>,
        Response = Response<B>,
        Error: Into<Box<dyn Error + Send + Sync>>,
        Future: Send,
    > + Clone
    + Send
    + 'static
{
}

impl<B, S> Answer<B> for S where
    S: Service<
            Request<Incoming>,
            Response = Response<B>,
            Error: Into<Box<dyn Error + Send + Sync>>,
            Future: Send,
        > + Clone
        + Send
        + 'static
{
}

/// A body that a test server can send.
pub trait AnswerBody:
    Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static
{
}

impl<B> AnswerBody for B where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static
{
}

/// A running server. It stops when this is dropped.
#[derive(Debug)]
pub struct TestServer {
    address: SocketAddr,
    ca_pem: Option<String>,
    connections: Arc<Connections>,
    task: JoinHandle<()>,
}

/// Connections of a server.
#[derive(Debug, Default)]
pub struct Connections {
    open: AtomicUsize,
    close_idle: Notify,
}

impl TestServer {
    /// Starts a server without TLS on a free port.
    ///
    /// # Panics
    /// There is no free port.
    pub fn http<B: AnswerBody>(service: impl Answer<B>) -> Self {
        Self::start(None, service)
    }

    /// Starts a server with TLS on a free port.
    ///
    /// # Panics
    /// There is no free port.
    pub fn https<B: AnswerBody>(service: impl Answer<B>) -> Self {
        Self::start(Some(ServerTls::new("server").unwrap()), service)
    }

    fn start<B: AnswerBody>(tls: Option<ServerTls>, service: impl Answer<B>) -> Self {
        let listener = listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = tls
            .as_ref()
            .map(|tls| TlsAcceptor::from(tls.server.clone()));
        let connections = Arc::<Connections>::default();
        let serving = serve(listener, acceptor, service, connections.clone());
        Self {
            address,
            ca_pem: tls.map(|tls| tls.ca_pem),
            connections,
            task: tokio::spawn(serving),
        }
    }

    /// Base URL, without a slash at its end.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.ca_pem.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}", self.address)
    }

    /// Address on loopback.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// CA certificate, PEM; empty without TLS.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        self.ca_pem.as_deref().unwrap_or_default()
    }

    /// Number of open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.open.load(SeqCst)
    }

    /// Closes every connection without a request in flight.
    pub fn close_idle(&self) {
        self.connections.close_idle.notify_waiters();
    }

    /// Accepts no more connections and keeps the open ones.
    pub async fn stop_listening(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Listens on 127.0.0.1; port 0 is any free port.
///
/// # Errors
/// The port is in use.
pub fn listen(port: u16) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    socket.listen(LISTEN_BACKLOG)
}

/// Serves connections, upgrades included, until the future is dropped. Open connections outlive it.
///
/// A connection is aborted when `service` fails. Failures are printed on standard error.
pub async fn serve<B: AnswerBody>(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    service: impl Answer<B>,
    connections: Arc<Connections>,
) {
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => drop(tokio::spawn({
                let (acceptor, service) = (acceptor.clone(), service.clone());
                let connections = connections.clone();
                async move {
                    if let Err(error) = connection(socket, acceptor, service, &connections).await {
                        eprintln!("connection of {peer}: {error:#}");
                    }
                }
            })),
            Err(error) => {
                eprintln!("accept: {error}");
                time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection<B: AnswerBody>(
    socket: TcpStream,
    acceptor: Option<TlsAcceptor>,
    service: impl Answer<B>,
    connections: &Connections,
) -> anyhow::Result<()> {
    socket.set_nodelay(true)?;
    let Some(acceptor) = acceptor else {
        return exchange(socket, service, connections).await;
    };
    let stream = time::timeout(HANDSHAKE_DEADLINE, acceptor.accept(socket))
        .await
        .context("TLS handshake")?
        .context("TLS handshake")?;
    exchange(stream, service, connections).await
}

async fn exchange<I, B>(
    stream: I,
    service: impl Answer<B>,
    connections: &Connections,
) -> anyhow::Result<()>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: AnswerBody,
{
    struct Open<'a>(&'a AtomicUsize);
    impl Drop for Open<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, SeqCst);
        }
    }
    connections.open.fetch_add(1, SeqCst);
    let _open = Open(&connections.open);
    let serving = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut serving = pin!(serving);
    tokio::select! {
        served = &mut serving => served?,
        () = connections.close_idle.notified() => {
            serving.as_mut().graceful_shutdown();
            serving.await?;
        }
    }
    Ok(())
}
