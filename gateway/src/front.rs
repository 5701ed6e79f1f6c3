//! The front: from a TCP connection to requests in the [`mod@stack`].
//!
//! An idle client costs a socket and a few KiB, and takes no other client's turn: handshakes have no queue. Their
//! number is bounded, and the slowest one makes way for a new one. The CPU work of a handshake is one synchronous step,
//! so no more of them run at once than there are cores.

pub(crate) mod address;
pub(crate) mod attempts;
mod audit;
pub(crate) mod authenticate;
mod authorize;
pub(crate) mod caller_limit;
mod caller_names;
mod catch_panic;
mod connect;
pub(crate) mod connection;
mod drain_body;
pub(crate) mod eviction;
pub(crate) mod forward;
mod frame_gate;
mod headers;
mod hop;
mod limit;
mod modules;
mod offered_body;
mod pings;
pub(crate) mod proxy_hop;
pub(crate) mod record;
mod redirect;
mod refusal;
mod respond;
mod route;
#[cfg(test)]
pub(crate) mod samples;
mod service_host;
mod service_port;
mod service_tls;
mod socket;
mod stack;
mod stall_owner;
pub(crate) mod stalls;
pub(crate) mod stranger_pools;
mod strangers;
mod stream_task;
mod tap;
mod tcp;
pub(crate) mod transfer;
mod upgrade;
mod upgraded_stream;
pub(crate) mod wrong_tokens;

use std::{
    convert::Infallible,
    future::Future,
    net::{IpAddr, SocketAddr},
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use fairlead_dialer::{InputGate, ServerTls};
use fairlead_exchange::{
    Body, BodyError, ClientSettings, ConnectionShutdown, SocketTransport, serve_clients,
};
use fairlead_runtime::{Seldom, gauges::GaugeGuard, workers};
use futures_util::{FutureExt, future::Either};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::{
    body::{Body as _, Incoming},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tracing::{debug, warn};

use self::{
    connection::{CLOSE_TIMEOUT, ConnectionState},
    record::{Inbound, RequestRecord},
    refusal::refusal,
    socket::{ClientConnection, ClientSocket, FrontTls, ResetOnDrop, SocketLimits},
    stack::Stack,
    stalls::StallWatch,
    stream_task::StreamExecutor,
    transfer::RecordedDownload,
};
use crate::{
    http::body,
    hub::Hub,
    metrics::{HandshakeOutcome, TlsLayer},
};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longer than Go keeps an idle connection (90 s), so that a client seldom writes into a connection that is closing.
const HEAD_OR_IDLE_TIMEOUT: Duration = Duration::from_secs(100);
/// Above the limit of [`headers::check`], so that most oversized heads get an answer with a code.
///
/// Beyond it, and beyond 100 fields, the connection ends with a [`mod@refusal`]. Over HTTP/2 the answer is hyper's, without a
/// body.
const HEAD_BUFFER_BYTES: usize = 2 * headers::MAX_HEAD;
/// HTTP/1 of clients.
const HTTP1: ClientSettings = ClientSettings {
    max_head_bytes: HEAD_BUFFER_BYTES,
    head_timeout: HEAD_OR_IDLE_TIMEOUT,
    refusal,
};
/// As kube-apiserver. Clients open another connection for more.
const H2_MAX_STREAMS: u32 = 100;
const H2_STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const H2_CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
const H2_PING_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(crate) struct Front {
    hub: Arc<Hub>,
    stack: Stack,
}

impl Front {
    pub(crate) fn new(hub: &Arc<Hub>) -> Self {
        Front {
            hub: Arc::clone(hub),
            stack: Stack::new(hub),
        }
    }

    /// Serves one connection until it ends or is handed over, to an upgrade or to another core.
    pub(crate) async fn serve(self, socket: TcpStream, peer: SocketAddr) {
        let open = GaugeGuard::of(&self.hub.metrics.connections);
        let Some((socket, peer)) = self.client(socket, peer).await else {
            return;
        };
        let (socket, reset, state) = self.client_socket(socket, peer);
        let Some((socket, service)) = self.service_by_name(socket, peer).await else {
            return;
        };
        if let Some(service) = service {
            let parts = (peer, reset, state);
            return self.serve_bytes(&service, socket, parts).await;
        }
        let Some(tls) = self.handshake(socket, peer.ip()).await else {
            return;
        };
        let connection = ClientConnection {
            peer,
            strangers: None,
            sni: tls.get_ref().server_name().cloned(),
            service: None,
            reset,
            state,
        };
        match self.other_core(&connection) {
            None => self.serve_http(tls, connection).await,
            Some(core) => {
                let process = self.hub.process.clone();
                process.spawn_at(core, self.serve_moved(tls, connection, open));
            }
        }
    }

    /// Core of the session of the cluster that the client has named, if it is another one than this.
    fn other_core(&self, connection: &ClientConnection) -> Option<usize> {
        let cluster = self.hub.names.cluster(connection.sni.as_deref()?)?;
        let core = self.hub.sessions.core_of(&cluster)?;
        (core != workers::core()).then_some(core)
    }

    /// Serves a connection that was accepted on another core.
    async fn serve_moved(self, mut tls: FrontTls, connection: ClientConnection, open: GaugeGuard) {
        match tls.get_mut().get_mut().move_here() {
            Ok(()) => self.serve_http(tls, connection).await,
            Err(error) => warn!(peer = %connection.peer, %error, "connection lost"),
        }
        drop(open);
    }

    async fn serve_http(self, tls: FrontTls, connection: ClientConnection) {
        if tls.get_ref().alpn_protocol() == Some(b"h2") {
            self.http2(tls, connection).await;
        } else {
            self.http1(tls, connection).await;
        }
    }

    /// Serves a connection without TLS, which a proxy in front has ended.
    pub(crate) async fn serve_plain(self, socket: TcpStream, peer: SocketAddr) {
        let _open = GaugeGuard::of(&self.hub.metrics.connections);
        let Some((socket, peer)) = self.client(socket, peer).await else {
            return;
        };
        let (socket, reset, state) = self.client_socket(socket, peer);
        let connection = ClientConnection {
            peer,
            strangers: None,
            sni: None,
            service: None,
            reset,
            state,
        };
        self.http1(socket, connection).await;
    }

    /// The connection with the address of its client, which a proxy may report.
    async fn client(
        &self,
        mut socket: TcpStream,
        peer: SocketAddr,
    ) -> Option<(TcpStream, SocketAddr)> {
        if !self.hub.proxies.reads_header() {
            return Some((socket, peer));
        }
        let slot = self.hub.front_handshakes.acquire(peer.ip());
        tokio::select! {
            client = self.hub.proxies.client_of(&mut socket, peer) => Some((socket, client?)),
            () = slot.evicted() => {
                let evicted = HandshakeOutcome::Evicted;
                self.hub.metrics.handshake(TlsLayer::Front, evicted);
                None
            }
        }
    }

    fn client_socket(
        &self,
        socket: TcpStream,
        peer: SocketAddr,
    ) -> (ClientSocket, ResetOnDrop, Arc<ConnectionState>) {
        let hub = &self.hub;
        let reset = ResetOnDrop::default();
        let state = ConnectionState::new(&hub.strangers, peer);
        if hub.proxies.is_shared(peer) {
            // Each of its requests has limits of its own.
            state.set_shared();
        }
        let limits = SocketLimits {
            watch: StallWatch::new(&hub.stalls, &state, hub.stall_timeout),
            state: Arc::clone(&state),
            metrics: Arc::clone(&hub.metrics),
            read: 0,
        };
        (
            ClientSocket::new(socket, reset.clone(), limits),
            reset,
            state,
        )
    }

    async fn http1<IO>(self, io: IO, connection: ClientConnection)
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let hub = Arc::clone(&self.hub);
        let (peer, state) = (connection.peer, Arc::clone(&connection.state));
        let shutdown = ConnectionShutdown::default();
        let serving = serve_clients(SocketTransport::new(io), &HTTP1, &shutdown, |request| {
            self.request(request, &connection, None)
        });
        let serving = pin!(serving);
        // A connection to a hub that refuses requests may carry an agent with a broken link.
        let over = match hub.closing.is_cancelled() {
            true => Either::Left(hub.sessions_ended.cancelled()),
            false => Either::Right(hub.closing.cancelled()),
        };
        serve_until(&hub, serving, |_| shutdown.begin(), over, peer, &state).await;
    }

    async fn http2(self, tls: FrontTls, connection: ClientConnection) {
        let hub = Arc::clone(&self.hub);
        let (peer, state) = (connection.peer, Arc::clone(&connection.state));
        state.set_http2();
        let executor =
            StreamExecutor::new(&hub.process, &hub.stalls, hub.stall_timeout, &hub.metrics);
        let streams = executor.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let request = request.map(|it| match it.is_end_stream() {
                true => body::empty(),
                false => it.map_err(BodyError::from).boxed_unsync(),
            });
            self.request(request, &connection, Some(&streams))
                .map(Ok::<_, Infallible>)
        });
        let serving = h2(executor).serve_connection(TokioIo::new(tls), service);
        let serving = pin!(serving);
        serve_until(
            &hub,
            serving,
            |it| it.graceful_shutdown(),
            hub.closing.cancelled(),
            peer,
            &state,
        )
        .await;
    }

    async fn handshake(&self, socket: ClientSocket, from: IpAddr) -> Option<FrontTls> {
        let slot = self.hub.front_handshakes.acquire(from);
        let config = Arc::clone(&self.hub.front_tls.borrow());
        let (outcome, tls) = tokio::select! {
            done = timeout(HANDSHAKE_TIMEOUT, ServerTls::accept(socket, config)) => match done {
                Ok(Ok(tls)) => (HandshakeOutcome::Ok, Some(InputGate::new(tls))),
                Ok(Err(_)) => (HandshakeOutcome::Failed, None),
                Err(_) => (HandshakeOutcome::Timeout, None),
            },
            () = slot.evicted() => (HandshakeOutcome::Evicted, None),
            () = self.hub.sessions_ended.cancelled() => (HandshakeOutcome::Refused, None),
        };
        self.hub.metrics.handshake(TlsLayer::Front, outcome);
        tls
    }

    /// Gives the request its id and passes it to the stack.
    fn request(
        &self,
        mut request: Request<Body>,
        connection: &ClientConnection,
        streams: Option<&StreamExecutor>,
    ) -> impl Future<Output = Response<RecordedDownload>> + Send + use<> {
        let hub = &self.hub;
        let mut connection = connection.clone();
        connection.peer = hub
            .proxies
            .client_of_request(request.headers_mut(), connection.peer);
        if !connection.state.strangers.are_of(connection.peer.ip()) {
            connection.strangers = Some(hub.strangers.shares(connection.peer.ip()));
        }
        connection.service = hub.services.of_request(&request);
        let record = RequestRecord::begin(
            &request,
            &connection,
            &hub.requests,
            hub.audit.get(),
            hub.traces.get(),
            &hub.metrics,
        );
        if let Some(streams) = streams {
            streams.watch_next(&record);
        }
        let inbound = Box::new(Inbound {
            request,
            connection,
            record,
        });
        self.stack.clone().answer(inbound)
    }
}

/// Serves until the connection ends; once `over` completes, it ends after the requests that run on it.
async fn serve_until<C, E>(
    hub: &Hub,
    mut serving: Pin<&mut C>,
    shut_down: impl FnOnce(Pin<&mut C>),
    over: impl Future<Output = ()>,
    peer: SocketAddr,
    state: &ConnectionState,
) where
    C: Future<Output = Result<(), E>>,
    E: std::error::Error + 'static,
{
    let slot = hub.strangers.connection(peer.ip());
    let closing = async {
        tokio::select! {
            biased;
            cause = state.close_cause(slot, HEAD_OR_IDLE_TIMEOUT) => Some(cause),
            () = over => None,
        }
    };
    let ended = tokio::select! {
        biased;
        ended = serving.as_mut() => ended,
        // Polled with each request otherwise.
        cause = Seldom::new(closing) => match cause {
            Some(cause) => {
                hub.metrics.connection_closed(cause);
                debug!(%peer, cause = cause.as_str(), "connection closed");
                if !cause.is_graceful() {
                    return;
                }
                shut_down(serving.as_mut());
                timeout(CLOSE_TIMEOUT, serving).await.unwrap_or(Ok(()))
            }
            None => {
                shut_down(serving.as_mut());
                serving.await
            }
        },
    };
    if let Err(error) = ended {
        debug!(%peer, error = &error as &dyn std::error::Error, "connection ended early");
    }
}

fn h2(executor: StreamExecutor) -> http2::Builder<StreamExecutor> {
    let mut builder = http2::Builder::new(executor);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(H2_MAX_STREAMS)
        .initial_stream_window_size(H2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(H2_CONNECTION_WINDOW_BYTES)
        .max_header_list_size(u32::try_from(HEAD_BUFFER_BYTES).unwrap_or(u32::MAX))
        // WebSockets of TCP connections (RFC 8441).
        .enable_connect_protocol()
        .keep_alive_interval(H2_PING_INTERVAL)
        .keep_alive_timeout(H2_PING_INTERVAL);
    builder
}
