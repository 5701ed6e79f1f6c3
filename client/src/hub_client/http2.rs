//! HTTP/2 connections to the hub, whose streams carry the WebSockets of TCP connections (RFC 8441): a stream is opened without a
//! TLS handshake.
//!
//! Only brief connections in quick succession use them: a long one has more bandwidth on a connection of its own. They are
//! opened in the background. While there is none, each WebSocket has a connection of its own, whose failure names the
//! fault of the path to the hub.

use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use fairlead_api::Failure;
use fairlead_dialer::ClientTls;
use http_body_util::Empty;
use hyper::{
    client::conn::http2::{self, SendRequest},
    rt::Executor,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::{Instant, interval, timeout},
};

use super::{BoxError, HubClient};

/// Longest brief connection.
const BRIEF_LIMIT: Duration = Duration::from_secs(1);
/// Brief connections that must have ended within [`BRIEF_INTERVAL`] before the next one is a stream.
const MIN_BRIEF: usize = 4;
const BRIEF_INTERVAL: Duration = Duration::from_secs(2);
/// Streams of one connection. A hub grants a connection the window of this many streams, so none waits for another one whose
/// target reads nothing.
const MAX_STREAMS: usize = 4;
/// Window of a stream, in bytes: its rate over a path of 60 ms is at most 16 MB/s.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = MAX_STREAMS as u32 * STREAM_WINDOW_BYTES;
/// Interval of pings, and limit for their answers: a silent path ends the connection within twice of it.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Deadline of a connection until the hub has sent its settings.
const OPEN_DEADLINE: Duration = Duration::from_secs(10);
/// Pause after a connection that failed, or that knows no WebSockets: a load balancer may speak HTTP/1.1 only.
const RETRY_PAUSE: Duration = Duration::from_secs(60);
/// Time after which a connection without streams is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Sender of requests on one connection.
pub(super) type Requests = SendRequest<Empty<Bytes>>;
type Driver = Pin<Box<http2::Connection<TokioIo<ClientTls<PathIo>>, Empty<Bytes>, NoticedTasks>>>;
type PathIo = Box<dyn Path>;

/// Path to the hub, below TLS.
trait Path: AsyncRead + AsyncWrite + Send + Unpin {}
impl<IO: AsyncRead + AsyncWrite + Send + Unpin> Path for IO {}

/// Connections to one hub. Clones share them.
#[derive(Clone)]
pub struct SharedConnections(Arc<Shared>);

struct Shared {
    hub: HubClient,
    tls: Arc<ClientConfig>,
    state: Mutex<State>,
}

struct State {
    connections: Vec<Connection>,
    next: Next,
    /// Ends of the last brief WebSockets, shared or not.
    brief_ends: VecDeque<Instant>,
}

/// Whether another connection may be opened.
enum Next {
    Allowed,
    InProgress,
    NotBefore(Instant),
}

struct Connection {
    requests: Requests,
    streams: Arc<Semaphore>,
    used: Instant,
}

/// Executor that tells when a task of the connection was polled: hyper does not tell when the settings have arrived.
#[derive(Clone, Default)]
struct NoticedTasks(Arc<Notify>);

impl<F> Executor<F> for NoticedTasks
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, task: F) {
        let progress = Arc::clone(&self.0);
        tokio::spawn(async move {
            let mut task = pin!(task);
            poll_fn(|cx| {
                let polled = task.as_mut().poll(cx);
                progress.notify_one();
                polled
            })
            .await
        });
    }
}

/// A WebSocket in use, shared or not. Its end is noted when this is dropped.
pub(super) struct SocketUse {
    shared: SharedConnections,
    begin: Instant,
    /// Place among the streams of a connection.
    _place: Option<OwnedSemaphorePermit>,
}

impl Drop for SocketUse {
    fn drop(&mut self) {
        let now = Instant::now();
        if now - self.begin <= BRIEF_LIMIT {
            let mut state = self.shared.lock();
            state.brief_ends.push_back(now);
            if state.brief_ends.len() > MIN_BRIEF {
                state.brief_ends.pop_front();
            }
        }
    }
}

impl State {
    /// True if the next WebSocket is probably a brief one.
    fn expects_brief(&self) -> bool {
        let oldest = self.brief_ends.front();
        self.brief_ends.len() == MIN_BRIEF
            && oldest.is_some_and(|it| it.elapsed() <= BRIEF_INTERVAL)
    }
}

impl SharedConnections {
    /// Connections to the hub of this client; none is open yet.
    ///
    /// # Errors
    /// As for [`HubClient::new`].
    pub fn new(hub: &HubClient) -> Result<Self, Failure> {
        let mut tls = (*fairlead_certs::outer_client(hub.ca(), None)?).clone();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let state = State {
            connections: Vec::new(),
            next: Next::Allowed,
            brief_ends: VecDeque::new(),
        };
        Ok(SharedConnections(Arc::new(Shared {
            hub: hub.clone(),
            tls: Arc::new(tls),
            state: Mutex::new(state),
        })))
    }

    /// The use of a WebSocket, with the sender of its request if it is to be a stream.
    pub(super) fn begin(&self) -> (SocketUse, Option<Requests>) {
        let (requests, place) = self.place().unzip();
        let socket_use = SocketUse {
            shared: self.clone(),
            begin: Instant::now(),
            _place: place,
        };
        (socket_use, requests)
    }

    /// A place for one stream. While no connection has one, another connection is opened in the background.
    fn place(&self) -> Option<(Requests, OwnedSemaphorePermit)> {
        let mut state = self.lock();
        state.connections.retain(|it| !it.requests.is_closed());
        if !state.expects_brief() {
            return None;
        }
        for connection in &mut state.connections {
            if let Ok(place) = Arc::clone(&connection.streams).try_acquire_owned() {
                connection.used = Instant::now();
                return Some((connection.requests.clone(), place));
            }
        }
        let is_allowed = match state.next {
            Next::Allowed => true,
            Next::InProgress => false,
            Next::NotBefore(time) => time <= Instant::now(),
        };
        if is_allowed {
            state.next = Next::InProgress;
            tokio::spawn(self.clone().open());
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens one connection, and drives it to its end.
    async fn open(self) {
        let Ok(Ok((requests, mut connection))) = timeout(OPEN_DEADLINE, self.connect()).await
        else {
            self.lock().next = Next::NotBefore(Instant::now() + RETRY_PAUSE);
            return;
        };
        let streams = Arc::new(Semaphore::new(MAX_STREAMS));
        {
            let mut state = self.lock();
            state.next = Next::Allowed;
            state.connections.push(Connection {
                requests,
                streams: Arc::clone(&streams),
                used: Instant::now(),
            });
        }
        let mut ticks = interval(IDLE_TIMEOUT);
        loop {
            tokio::select! {
                // Its streams have failed with it.
                _ = &mut connection => return,
                _ = ticks.tick() => self.drop_unused(&streams),
            }
        }
    }

    /// Connects to the hub, until its settings say that it knows WebSockets here.
    async fn connect(&self) -> Result<(Requests, Driver), BoxError> {
        let Shared { hub, tls, .. } = &*self.0;
        let url = hub.url();
        let connecting = hub.proxy.connect_by(url, OPEN_DEADLINE, tls);
        let stream: PathIo = Box::new(connecting.await?.into_stream());
        let name = ServerName::try_from(url.host().to_owned())?;
        let tls = ClientTls::connect(stream, Arc::clone(tls), name).await?;
        let executor = NoticedTasks::default();
        let progress = Arc::clone(&executor.0);
        let (requests, connection) = http2::Builder::new(executor)
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_INTERVAL)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(tls))
            .await?;
        let mut connection = Box::pin(connection);
        while !connection.is_extended_connect_protocol_enabled() {
            tokio::select! {
                ended = &mut connection => return Err(ended.map_or_else(Into::into, |()| "it ended".into())),
                () = progress.notified() => {}
            }
        }
        Ok((requests, connection))
    }

    /// Gives up a connection that had no stream for a while. It ends then.
    fn drop_unused(&self, streams: &Arc<Semaphore>) {
        self.lock().connections.retain(|it| {
            let is_idle =
                it.streams.available_permits() == MAX_STREAMS && it.used.elapsed() >= IDLE_TIMEOUT;
            !(is_idle && Arc::ptr_eq(&it.streams, streams))
        });
    }
}

#[cfg(test)]
mod tests;
