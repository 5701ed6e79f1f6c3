//! HTTP/1.1 client: a pool of transports with keep-alive, one request at a time on each, without a task.
//!
//! A request with `Expect: 100-continue` holds its body back until the server has sent `100
//! Continue`, or for a second. The body's source is not polled before that, so a server that reads
//! it from a user sends `100 Continue` to the user no earlier: the expectation passes end to end.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use fairlead_dialer::{OpenError, Session, Stream};
use http::{HeaderName, HeaderValue, Request};
use tokio::time::timeout;
use tracing::debug;

use crate::{
    answer::Answer,
    body::{self, Body, BodyError},
    download::DownloadBody,
    error::{ExchangeError, HttpError},
    head::{RequestKind, ResponseHead},
    in_flight::{InFlight, InFlightError, PendingRequest},
    lines::{
        request::WrittenLines,
        response::{LinesAnswer, ResponseForm, Sent},
    },
    pool::Pool,
    transport::Transport,
};

/// Sessions limit their streams themselves, idle ones included.
const MAX_STREAMS: usize = usize::MAX;

/// Client of one server with a pool of idle transports. Clones share the pool.
pub struct Client<W> {
    pool: Arc<Pool<W>>,
    reuse: Reuse,
}

/// Requests that an idle transport serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reuse {
    All,
    /// Those that may be sent again if the transport has died.
    Repeatable,
}

impl<W> Clone for Client<W> {
    fn clone(&self) -> Self {
        Client {
            pool: self.pool.clone(),
            reuse: self.reuse,
        }
    }
}

/// Reason for a failed request. `E` is the error of the connector.
#[derive(Debug, thiserror::Error)]
pub enum SendError<E> {
    /// The connector failed.
    #[error("no connection")]
    Connect(#[source] E),
    /// The transport broke before a response.
    #[error("the connection broke before a response")]
    Broken(#[source] BodyError),
    /// The body of the request failed.
    #[error("the request body failed")]
    Request(#[source] BodyError),
}

impl<E> From<InFlightError> for SendError<E> {
    fn from(error: InFlightError) -> Self {
        match error {
            InFlightError::Request(cause) => SendError::Request(cause),
            InFlightError::Broken(HttpError::Io(cause)) => SendError::Broken(cause.into()),
            InFlightError::Broken(cause) => SendError::Broken(cause.into()),
        }
    }
}

impl<W: Transport> Client<W> {
    /// At most `max_idle` transports are kept; beyond that, the oldest is dropped.
    #[must_use]
    pub fn new(max_idle: usize) -> Self {
        Client {
            pool: Arc::new(Pool::new(max_idle)),
            reuse: Reuse::All,
        }
    }

    /// Gives each request that must not be sent twice a new transport, for servers that close idle ones at any time.
    #[must_use]
    pub fn with_new_transports_for_writes(mut self) -> Self {
        self.reuse = Reuse::Repeatable;
        self
    }

    /// Sends one request, in origin form (or authority form for CONNECT).
    ///
    /// Upgrades get a new transport. A request is sent once more if its pooled transport died before a
    /// response and the request is safe (RFC 9110, 9.2.1) without a body, or not a byte of it
    /// was sent. Dropping the future or the response's body resets the transport.
    ///
    /// # Errors
    ///
    /// See [`SendError`]. A body that breaks off later reports an error itself.
    pub async fn send<E, C>(
        &self,
        request: Request<Body>,
        connect: impl FnOnce() -> C,
    ) -> Result<Answer, SendError<E>>
    where
        C: Future<Output = Result<W, E>>,
    {
        let pending = PendingRequest::new(request, &[], &|_| true).map_err(SendError::Request)?;
        let sent = self.send_pending(Box::new(pending), connect).await?;
        Ok(Answer::of(sent))
    }

    /// Sends a request whose head is encoded, as [`Client::send`].
    ///
    /// # Errors
    ///
    /// See [`SendError`]. A body that breaks off later reports an error itself.
    pub async fn send_prepared<E, C>(
        &self,
        request: PreparedRequest,
        connect: impl FnOnce() -> C,
    ) -> Result<Answer, SendError<E>>
    where
        C: Future<Output = Result<W, E>>,
    {
        Ok(Answer::of(self.send_pending(request.0, connect).await?))
    }

    /// As [`Client::send_prepared`], with the head of the answer in lines if it can be read so.
    ///
    /// # Errors
    ///
    /// See [`SendError`]. A body that breaks off later reports an error itself.
    pub async fn send_for_lines<E, C>(
        &self,
        request: PreparedRequest,
        connect: impl FnOnce() -> C,
    ) -> Result<LinesAnswer, SendError<E>>
    where
        C: Future<Output = Result<W, E>>,
    {
        Ok(LinesAnswer::of(
            self.send_pending(request.0, connect).await?,
        ))
    }

    async fn send_pending<R, E, C>(
        &self,
        mut pending: Box<PendingRequest>,
        connect: impl FnOnce() -> C,
    ) -> Result<Sent<R>, SendError<E>>
    where
        R: ResponseForm,
        C: Future<Output = Result<W, E>>,
    {
        let raw = pending.kind.upgrade || pending.kind.connect;
        let may_reuse = match self.reuse {
            Reuse::All => !raw,
            Reuse::Repeatable => !raw && pending.is_repeatable(),
        };
        if may_reuse && let Some(transport) = self.pool.take() {
            let mut in_flight = InFlight::new(transport, pending);
            let error = match in_flight.answer().await {
                Ok(head) => return self.answer(in_flight, head),
                Err(error) => error,
            };
            let dead = matches!(
                error,
                InFlightError::Broken(HttpError::Io(_) | HttpError::Cut)
            );
            pending = match in_flight.again().filter(|_| dead) {
                Some(pending) => pending,
                None => return Err(error.into()),
            };
            debug!("pooled stream died, request is sent again on a new one");
        }
        let transport = connect().await.map_err(SendError::Connect)?;
        let mut in_flight = InFlight::new(transport, pending);
        let head = in_flight.answer().await?;
        self.answer(in_flight, head)
    }

    fn answer<R: ResponseForm, E>(
        &self,
        in_flight: InFlight<W>,
        head: ResponseHead<R>,
    ) -> Result<Sent<R>, SendError<E>> {
        let ResponseHead {
            response,
            body,
            close,
        } = head;
        if in_flight.kind().is_switched_by(response.status()) {
            let (transport, read) = in_flight.into_raw().map_err(InFlightError::Broken)?;
            return Ok(Sent::Upgraded(response, transport.into_upgraded(read)));
        }
        let pool = (!close).then(|| Arc::downgrade(&self.pool));
        let download = DownloadBody::new(in_flight, body, pool);
        let body = if http_body::Body::is_end_stream(&download) {
            body::empty()
        } else {
            Body::new(download)
        };
        Ok(Sent::Response(response, body))
    }
}

/// A request whose head is encoded, for one session after the other.
pub struct PreparedRequest(Box<PendingRequest>);

impl PreparedRequest {
    /// Encodes the head of a request.
    ///
    /// # Errors
    ///
    /// If the request contradicts itself about its length.
    pub fn new(request: Request<Body>) -> Result<Self, ExchangeError> {
        PreparedRequest::with_fields(request, &[])
    }

    /// Encodes the head of a request with `added` headers, which need no place in its map.
    ///
    /// The request must have none of them, and they must not frame the body.
    ///
    /// # Errors
    ///
    /// As [`PreparedRequest::new`].
    pub fn with_fields(
        request: Request<Body>,
        added: &[(&HeaderName, &HeaderValue)],
    ) -> Result<Self, ExchangeError> {
        PreparedRequest::filtered(request, added, &|_| true)
    }

    /// Encodes the head of a request with `added` headers, and those of its own that are `kept`. An upgrade or an expectation
    /// that is not kept is not asked for.
    ///
    /// # Errors
    ///
    /// As [`PreparedRequest::new`].
    pub fn filtered(
        request: Request<Body>,
        added: &[(&HeaderName, &HeaderValue)],
        kept: &dyn Fn(&HeaderName) -> bool,
    ) -> Result<Self, ExchangeError> {
        let pending = PendingRequest::new(request, added, kept).map_err(ExchangeError::Request)?;
        Ok(PreparedRequest(Box::new(pending)))
    }

    /// Ends the head of a request that is written in lines.
    ///
    /// # Errors
    ///
    /// As [`PreparedRequest::new`].
    pub fn of_lines(written: WrittenLines<'_>, body: Body) -> Result<Self, ExchangeError> {
        let pending = PendingRequest::of_lines(written, body).map_err(ExchangeError::Request)?;
        Ok(PreparedRequest(Box::new(pending)))
    }

    /// The head for another session; `None` unless the request is a read without a body and without an upgrade, or a CONNECT.
    #[must_use]
    pub fn repeatable(&self) -> Option<RepeatableRequest> {
        let (head, kind) = self.0.repeatable()?;
        Some(RepeatableRequest { head, kind })
    }
}

/// Encoded head of a read that may be sent over another session.
pub struct RepeatableRequest {
    head: Bytes,
    kind: RequestKind,
}

impl From<RepeatableRequest> for PreparedRequest {
    fn from(again: RepeatableRequest) -> Self {
        let pending = PendingRequest::repeated(again.head, again.kind);
        PreparedRequest(Box::new(pending))
    }
}

/// Requests over the streams of one session. Clones share the idle streams.
#[derive(Clone)]
pub struct Exchanges {
    session: Session,
    client: Client<Stream>,
    head_timeout: Option<Duration>,
}

impl Exchanges {
    /// Makes a client over the streams of `session`.
    #[must_use]
    pub fn new(session: Session) -> Self {
        Exchanges {
            session,
            client: Client::new(MAX_STREAMS),
            head_timeout: None,
        }
    }

    /// Sets a deadline for the response's head, from the start of the request. There is none by
    /// default, because exec and attach may take any time.
    #[must_use]
    pub fn with_head_timeout(mut self, timeout: Duration) -> Self {
        self.head_timeout = Some(timeout);
        self
    }

    /// The session of this client.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Sends one request, as [`Client::send`].
    ///
    /// # Errors
    ///
    /// See [`ExchangeError`]. A body that breaks off later reports an error itself.
    pub async fn send(&self, request: Request<Body>) -> Result<Answer, ExchangeError> {
        self.send_prepared(PreparedRequest::new(request)?).await
    }

    /// As [`Exchanges::send`], for an encoded head.
    ///
    /// # Errors
    ///
    /// As [`Exchanges::send`].
    pub async fn send_prepared(&self, request: PreparedRequest) -> Result<Answer, ExchangeError> {
        let exchange = self.client.send_pending(request.0, || self.open());
        let answer = match self.head_timeout {
            None => exchange.await,
            Some(limit) => timeout(limit, exchange)
                .await
                .map_err(|_| ExchangeError::Timeout(limit))?,
        };
        Ok(Answer::of(answer?))
    }

    /// A new stream. Idle ones make room for it.
    async fn open(&self) -> Result<Stream, OpenError> {
        loop {
            match self.session.open().await {
                Err(OpenError::Full) if self.client.pool.shrink() => {}
                opened => return opened,
            }
        }
    }
}

impl From<SendError<OpenError>> for ExchangeError {
    fn from(error: SendError<OpenError>) -> Self {
        match error {
            SendError::Connect(cause) => ExchangeError::Open(cause),
            SendError::Broken(cause) => ExchangeError::Broken(cause),
            SendError::Request(cause) => ExchangeError::Request(cause),
        }
    }
}
