//! HTTP/1.1 server with keep-alive on one stream or connection, in the caller's task.
//!
//! An idle stream has no deadline of its own: it counts against the session's limit and ends with
//! the session, whose probes have deadlines. An idle connection of a client ends in time.

use std::{
    future::{Future, poll_fn},
    io,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{BufMut, Bytes};
use fairlead_api::{Code, Failure, Reason, headers::AGENT_CODE};
use fairlead_dialer::Stream;
use http::{HeaderMap, Request, Response, StatusCode, Version, header};
use http_body::Body as HttpBody;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};

use crate::{
    body::{self, Body, BodyError},
    error::{HttpError, malformed},
    framing::{self, BodyEncoder},
    head::{self, RequestHead, RequestKind, ResponseForm},
    head_deadline::HeadDeadline,
    outgoing::Outgoing,
    policy::{ClientSettings, ConnectionShutdown, ServerPolicy},
    request_reader::{PeerState, RequestReader, UNEXPECTED_DATA},
    sending::{Filled, Sending},
    transport::Transport,
    upgrade::{OnUpgrade, Upgraded},
};

/// Time limit for a peer's head, from its first byte.
const PEER_HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for the unread rest of a peer's body.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for a client to take its last answer, and to stop sending.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// Limit of bytes that are read and dropped meanwhile.
const MAX_LINGER_BYTES: usize = 1024 * 1024;
/// Size of the output buffer that an idle connection of a client keeps, in bytes.
const KEPT_OUTPUT_BYTES: usize = 4096;
/// Writes per poll, before other tasks get their turn.
const WRITES_PER_POLL: usize = 16;

/// Serves requests on `stream` until it ends. A 101 response (or 2xx to CONNECT) completes the
/// request's [`OnUpgrade`] extension with the raw stream. Heads of more than 100 fields or 64 KiB
/// are refused with 431 and `FL-1306`.
///
/// # Errors
///
/// If the stream broke, the peer sent invalid HTTP, or a response's body failed: the stream is
/// reset then, never ended. A peer that leaves drops the handler's future.
pub async fn serve<H, F>(stream: Stream, handler: H) -> io::Result<()>
where
    H: Fn(Request<Body>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send,
{
    serve_on(stream, handler).await
}

/// Serves requests on any transport, as [`serve`].
///
/// # Errors
///
/// As for [`serve`].
pub async fn serve_on<W, H, F>(transport: W, handler: H) -> io::Result<()>
where
    W: Transport,
    H: Fn(Request<Body>) -> F,
    F: Future<Output = Response<Body>>,
{
    Serving::new(transport, ServerPolicy::Peer)
        .run(handler)
        .await
}

/// Serves requests of a client on its connection, until it ends, is idle for too long, or `shutdown` begins.
///
/// A head with two readings or of more than 100 fields gets the answer of the settings. The next requests may arrive before an
/// answer, and wait. Bytes behind an upgrading request are the first ones of the raw connection.
///
/// # Errors
///
/// If the connection broke, the client sent invalid HTTP, or a response's body failed. A client that leaves drops the
/// handler's future.
pub async fn serve_clients<W, H, F, B>(
    transport: W,
    settings: &ClientSettings,
    shutdown: &ConnectionShutdown,
    handler: H,
) -> io::Result<()>
where
    W: Transport,
    H: Fn(Request<Body>) -> F,
    F: Future<Output = Response<B>>,
    B: HttpBody<Data = Bytes, Error = BodyError> + Unpin,
{
    Serving::new(transport, ServerPolicy::Clients(settings, shutdown))
        .run(handler)
        .await
}

struct Serving<'a, W> {
    reader: Arc<RequestReader<W>>,
    out: Outgoing,
    policy: ServerPolicy<'a>,
    deadline: HeadDeadline,
}

impl<W> Drop for Serving<'_, W> {
    /// On every return: a body that is still held must not delay the reset of the stream.
    fn drop(&mut self) {
        self.reader.abandon();
    }
}

/// Properties of a request until its response.
struct Turn {
    kind: RequestKind,
    upgrade: Option<oneshot::Sender<Upgraded>>,
    has_body: bool,
    takes_trailers: bool,
    expects_continue: bool,
    /// HTTP/1.0.
    old: bool,
    close: bool,
}

impl<'a, W: Transport> Serving<'a, W> {
    fn new(transport: W, policy: ServerPolicy<'a>) -> Self {
        Serving {
            reader: Arc::new(RequestReader::new(transport, policy.head_form())),
            out: Outgoing::default(),
            policy,
            deadline: HeadDeadline::default(),
        }
    }

    async fn run<H, F, B>(mut self, handler: H) -> io::Result<()>
    where
        H: Fn(Request<Body>) -> F,
        F: Future<Output = Response<B>>,
        B: HttpBody<Data = Bytes, Error = BodyError> + Unpin,
    {
        loop {
            let head = match self.head().await {
                Ok(Some(head)) => head,
                Ok(None) => return self.finish().await,
                Err(error) => return self.refuse(error).await,
            };
            if head.kind.upgrade && matches!(self.policy, ServerPolicy::Peer) {
                self.reader.check_rest()?;
            }
            let (request, turn) = self.begin(head);
            let answer = self.handled(handler(request), &turn).await?;
            if !self.answer(answer, turn).await? {
                return Ok(());
            }
        }
    }

    /// Next head; `None` at the end of the connection.
    async fn head(&mut self) -> Result<Option<RequestHead>, HttpError> {
        let mut since = None;
        let head = poll_fn(|cx| {
            if let Poll::Ready(head) = self.reader.poll_head(cx) {
                return Poll::Ready(head);
            }
            let is_closing = self.policy.is_shut_down();
            let limit = match self.policy {
                ServerPolicy::Peer if !self.reader.is_in_head() => return Poll::Pending,
                ServerPolicy::Peer => PEER_HEAD_TIMEOUT,
                ServerPolicy::Clients(..) if is_closing && !self.reader.is_in_head() => {
                    return Poll::Ready(Ok(None));
                }
                ServerPolicy::Clients(settings, _) => settings.head_timeout,
            };
            let due = *since.get_or_insert_with(Instant::now) + limit;
            let passed = self.deadline.poll(cx, due);
            passed.map(|()| match self.policy {
                ServerPolicy::Peer => malformed("the head was not complete in time"),
                ServerPolicy::Clients(..) => Ok(None),
            })
        });
        let form = self.policy.head_form();
        let head = head.await?;
        head.map(|head| head::request(&head, form)).transpose()
    }

    fn begin(&self, head: RequestHead) -> (Request<Body>, Turn) {
        let RequestHead {
            mut request,
            kind,
            body,
            expects_continue,
            takes_trailers,
            close,
        } = head;
        let mut turn = Turn {
            kind,
            upgrade: None,
            has_body: false,
            takes_trailers,
            expects_continue,
            old: request.version() == Version::HTTP_10,
            close,
        };
        if kind.upgrade {
            let (tx, on) = OnUpgrade::pair();
            request.extensions_mut().insert(on);
            turn.upgrade = Some(tx);
        }
        let upload = self.reader.begin(body, expects_continue);
        turn.has_body = upload.is_some();
        let body = upload.map_or_else(body::empty, Body::new);
        (request.map(|()| body), turn)
    }

    /// Runs the handler while the peer waits for it.
    async fn handled<F>(&mut self, handling: F, turn: &Turn) -> Result<F::Output, HttpError>
    where
        F: Future,
    {
        let mut handling = pin!(handling);
        let answer = poll_fn(|cx| {
            if let Poll::Ready(answer) = handling.as_mut().poll(cx) {
                return Poll::Ready(Ok(answer));
            }
            if turn.expects_continue && self.reader.takes_continue(cx) {
                self.out.tail().put_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            match self.reader.poll_write(cx, &mut self.out)? {
                Poll::Ready(PeerState::Left) => Poll::Ready(Err(HttpError::Cut)),
                _ => Poll::Pending,
            }
        });
        answer.await
    }

    /// Sends the response; true if another request may follow.
    async fn answer<B>(&mut self, answer: Response<B>, turn: Turn) -> io::Result<bool>
    where
        B: HttpBody<Data = Bytes, Error = BodyError> + Unpin,
    {
        let (mut parts, body) = answer.into_parts();
        if turn.kind.head {
            framing::tell_length(&mut parts.headers, &body);
        }
        let status = parts.status;
        if turn.expects_continue {
            self.reader.answers();
        }
        let switched = turn.kind.is_switched_by(status);
        if status.is_informational() && !switched {
            return Err(HttpError::Malformed("the response was not requested").into());
        }
        let bodiless = switched || turn.kind.is_bodiless(status);
        let encoder = match bodiless {
            true => BodyEncoder::Nothing,
            false => framing::of_response(&parts.headers, &body, turn.takes_trailers)
                .map_err(io::Error::other)?,
        };
        let encoder = match encoder {
            BodyEncoder::Chunked(_) if turn.old => BodyEncoder::ToEnd,
            encoder => encoder,
        };
        let close = self.write_head(&mut parts, &encoder, &turn, switched);
        if let (true, Some(upgrade)) = (switched, turn.upgrade) {
            return self.switch(upgrade).await;
        }
        match self.policy {
            ServerPolicy::Peer => {
                let sending = Sending::gathering(body, encoder);
                self.send(sending).await?;
                self.end_turn_of_peer(turn.has_body, close).await
            }
            // The agent has batched the body.
            ServerPolicy::Clients(..) => {
                let sending = Sending::new(body, encoder);
                self.send(sending).await?;
                self.end_turn_of_client(turn.has_body, close).await
            }
        }
    }

    /// Queues the head of the response; true if it is the last one.
    fn write_head(
        &mut self,
        parts: &mut http::response::Parts,
        encoder: &BodyEncoder,
        turn: &Turn,
        switched: bool,
    ) -> bool {
        let headers = &mut parts.headers;
        let announced = closes(headers);
        let is_of_client = matches!(self.policy, ServerPolicy::Clients(..));
        let last = self.policy.is_shut_down() || (turn.has_body && self.reader.is_broken());
        let close = turn.close || announced || last;
        if is_of_client && *encoder == BodyEncoder::Nothing && !turn.kind.head {
            // RFC 9110, section 8.6.
            headers.remove(header::CONTENT_LENGTH);
        }
        let form = ResponseForm {
            old: turn.old,
            // HTTP/1.0 has no other way.
            adds_close: is_of_client && close && !announced && !switched && !turn.old,
            adds_date: is_of_client,
        };
        head::write_response(parts.status, headers, encoder, form, self.out.tail());
        close
    }

    /// Reads the rest of the request; true if another one may follow.
    async fn end_turn_of_peer(&mut self, has_body: bool, close: bool) -> io::Result<bool> {
        if has_body {
            timeout(DRAIN_TIMEOUT, poll_fn(|cx| self.reader.poll_drain(cx)))
                .await
                .map_err(|_| {
                    HttpError::Malformed("the rest of the body did not arrive in time")
                })??;
        }
        self.out.rest(0);
        if close {
            self.finish().await?;
        }
        Ok(!close)
    }

    /// As [`Serving::end_turn_of_peer`], but the connection ends if the rest of the request has not arrived.
    async fn end_turn_of_client(&mut self, has_body: bool, close: bool) -> io::Result<bool> {
        let is_whole = match has_body {
            false => true,
            true => {
                let drained = poll_fn(|cx| Poll::Ready(self.reader.poll_drain(cx)));
                matches!(drained.await, Poll::Ready(Ok(())))
            }
        };
        if is_whole && !close {
            self.out.rest(KEPT_OUTPUT_BYTES);
            return Ok(true);
        }
        match is_whole && !self.reader.has_rest() {
            true => self.finish().await?,
            false => self.linger().await?,
        }
        Ok(false)
    }

    /// Ends the connection, and reads on for a while: unread bytes would reset it, and the client would lose the answer.
    async fn linger(&mut self) -> io::Result<()> {
        self.finish().await?;
        let mut limit = MAX_LINGER_BYTES;
        let discarding = poll_fn(|cx| self.reader.poll_discard(cx, &mut limit));
        // After that, the client has had its time.
        let _ = timeout(LINGER_TIMEOUT, discarding).await;
        Ok(())
    }

    async fn send<B>(&mut self, mut sending: Sending<B>) -> io::Result<()>
    where
        B: HttpBody<Data = Bytes, Error = BodyError> + Unpin,
    {
        poll_fn(|cx| self.poll_send(cx, &mut sending)).await
    }

    fn poll_send<B>(
        &mut self,
        cx: &mut Context<'_>,
        sending: &mut Sending<B>,
    ) -> Poll<io::Result<()>>
    where
        B: HttpBody<Data = Bytes, Error = BodyError> + Unpin,
    {
        for _ in 0..WRITES_PER_POLL {
            // Without the reader's lock: the response may echo the request's own body.
            let filled = sending.fill(cx, &mut self.out).map_err(io::Error::other)?;
            let is_last =
                filled == Filled::Done && matches!(self.policy, ServerPolicy::Clients(..));
            if is_last && self.reader.poll_write_last(cx, &mut self.out)?.is_ready() {
                return Poll::Ready(Ok(()));
            }
            match (self.reader.poll_write(cx, &mut self.out)?, filled) {
                (Poll::Ready(_), Filled::Done) => return Poll::Ready(Ok(())),
                (Poll::Ready(PeerState::Left), _) => {
                    return Poll::Ready(Err(HttpError::Cut.into()));
                }
                (Poll::Pending, _) | (_, Filled::Waiting) => return Poll::Pending,
                (Poll::Ready(PeerState::There), Filled::Full) => {}
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Writes the head that ends HTTP on this stream, and hands the stream over.
    async fn switch(&mut self, upgrade: oneshot::Sender<Upgraded>) -> io::Result<bool> {
        let Some((mut transport, read)) = self.reader.take() else {
            return Ok(false);
        };
        if !read.is_empty() && matches!(self.policy, ServerPolicy::Peer) {
            return Err(HttpError::Malformed(UNEXPECTED_DATA).into());
        }
        poll_fn(|cx| transport.poll_write(cx, &mut self.out)).await?;
        // Without a receiver, this resets the stream.
        drop(upgrade.send(transport.into_upgraded(read)));
        Ok(false)
    }

    async fn finish(&self) -> io::Result<()> {
        poll_fn(|cx| self.reader.poll_finish(cx)).await
    }

    /// Refuses a head. Peers get an answer only to one that is too large: the user can shorten cookies or tokens.
    async fn refuse(&mut self, error: HttpError) -> io::Result<()> {
        match (self.policy, &error) {
            (ServerPolicy::Peer, HttpError::TooLarge) => {
                self.write_too_large();
                self.write_all().await?;
                self.finish().await
            }
            (ServerPolicy::Clients(settings, _), HttpError::TooLarge | HttpError::Malformed(_)) => {
                self.out.push((settings.refusal)(&error));
                self.write_all().await?;
                self.linger().await?;
                Err(error.into())
            }
            _ => Err(error.into()),
        }
    }

    async fn write_all(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.reader.poll_write_last(cx, &mut self.out)).await
    }

    /// Queues the answer 431.
    fn write_too_large(&mut self) {
        let failure = Failure::new(Code::HeadTooLarge);
        let body = Reason::from(&failure).to_json();
        let mut headers = HeaderMap::new();
        let text = header::HeaderValue::from_static;
        headers.insert(header::CONNECTION, text("close"));
        headers.insert(header::CONTENT_TYPE, text("application/json"));
        if let Ok(code) = failure.code.to_string().parse() {
            headers.insert(AGENT_CODE, code);
        }
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        let framing = BodyEncoder::Length(body.len() as u64);
        let form = ResponseForm::default();
        head::write_response(status, &headers, &framing, form, self.out.tail());
        self.out.tail().extend_from_slice(&body);
    }
}

fn closes(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::CONNECTION).iter();
    lines
        .flat_map(|line| line.as_bytes().split(|&byte| byte == b','))
        .any(|token| token.trim_ascii().eq_ignore_ascii_case(b"close"))
}
