//! HTTP/1.1 server with keep-alive on one stream or connection, in the caller's task.
//!
//! An idle stream has no deadline of its own: it counts against the session's limit and ends with
//! the session, whose probes have deadlines. An idle connection of a client ends in time.

mod answering;

use std::{
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use bytes::{BufMut, Bytes};
use fairlead_api::{Code, Failure, Reason, headers::AGENT_CODE};
use fairlead_dialer::Stream;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body::Body as HttpBody;
use tokio::{sync::oneshot, time::Instant};

use crate::{
    body::{self, Body, BodyError},
    error::{HttpError, malformed},
    framing::BodyEncoder,
    head::{self, RequestHead, RequestKind, ResponseForm},
    head_deadline::HeadDeadline,
    lines::{
        reply::Reply,
        request::{LinesForm, MapForm, ReceivedRequest, RequestForm},
    },
    outgoing::Outgoing,
    policy::{ClientSettings, ConnectionShutdown, ServerPolicy},
    request_reader::RequestReader,
    shared_reader::PeerState,
    transport::Transport,
    upgrade::{OnUpgrade, Upgraded},
};

/// Time limit for a peer's head, from its first byte.
const PEER_HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves requests on `stream` until it ends. A 101 response (or 2xx to CONNECT) completes the
/// request's [`OnUpgrade`] extension with the raw stream. Heads of more than 100 fields or 64 KiB
/// are refused with 431 and `FL-1306`.
///
/// # Errors
///
/// If the stream broke, the peer sent invalid HTTP, or a response's body failed: the stream is
/// reset then, never ended. A peer that leaves drops the handler's future.
pub fn serve<H, F>(stream: Stream, handler: H) -> impl Future<Output = io::Result<()>> + Send
where
    H: Fn(Request<Body>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send,
{
    serve_on(stream, handler)
}

/// Serves requests on any transport, as [`serve`].
///
/// # Errors
///
/// As for [`serve`].
pub fn serve_on<W, H, F>(transport: W, handler: H) -> impl Future<Output = io::Result<()>>
where
    W: Transport,
    H: Fn(Request<Body>) -> F,
    F: Future<Output = Response<Body>>,
{
    Serving::new(transport, ServerPolicy::Peer).run::<MapForm, _, _, _>(handler)
}

/// Serves requests on any transport as [`serve`], with heads in lines if they can be read so. The guard beside each answer is
/// dropped as soon as its body has ended.
///
/// # Errors
///
/// As for [`serve`].
pub fn serve_lines<W, H, F, G>(transport: W, handler: H) -> impl Future<Output = io::Result<()>>
where
    W: Transport,
    H: Fn(ReceivedRequest) -> F,
    F: Future<Output = (Reply, G)>,
{
    Serving::new(transport, ServerPolicy::Peer).run::<LinesForm<G>, _, _, _>(handler)
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
pub fn serve_clients<'a, W, H, F, B>(
    transport: W,
    settings: &'a ClientSettings,
    shutdown: &'a ConnectionShutdown,
    handler: H,
) -> impl Future<Output = io::Result<()>>
where
    W: Transport,
    H: Fn(Request<Body>) -> F,
    F: Future<Output = Response<B>>,
    B: HttpBody<Data = Bytes, Error = BodyError> + Unpin,
{
    Serving::new(transport, ServerPolicy::Clients(settings, shutdown))
        .run::<MapForm, _, _, _>(handler)
}

struct Serving<'a, W> {
    reader: RequestReader<W>,
    out: Outgoing,
    policy: ServerPolicy<'a>,
    deadline: HeadDeadline,
    /// Empty map for the fields of the next head.
    spare: HeaderMap,
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
            reader: RequestReader::new(transport, policy.head_form()),
            out: Outgoing::default(),
            policy,
            deadline: HeadDeadline::default(),
            spare: HeaderMap::new(),
        }
    }

    /// Serves requests in the form that the handler takes.
    #[expect(
        clippy::manual_async_fn,
        reason = "an idle connection keeps this future, and `async fn` takes the memory of its arguments twice"
    )]
    fn run<R, B, H, F>(mut self, handler: H) -> impl Future<Output = io::Result<()>>
    where
        R: RequestForm<B>,
        B: HttpBody<Data = Bytes, Error = BodyError> + Unpin,
        H: Fn(R::Request) -> F,
        F: Future<Output = R::Answer>,
    {
        async move { self.serve::<R, B, H, F>(&handler).await }
    }

    /// No large value is kept over an await, see [`Serving::run`].
    async fn serve<R, B, H, F>(&mut self, handler: &H) -> io::Result<()>
    where
        R: RequestForm<B>,
        B: HttpBody<Data = Bytes, Error = BodyError> + Unpin,
        H: Fn(R::Request) -> F,
        F: Future<Output = R::Answer>,
    {
        let refused = loop {
            let head = match self.head::<R, B>().await {
                Ok(Some(head)) => head,
                Ok(None) => break None,
                Err(error) => break Some(error),
            };
            if head.kind.upgrade && matches!(self.policy, ServerPolicy::Peer) {
                self.reader.check_rest()?;
            }
            let (request, turn) = self.begin::<R, B>(head);
            let answer = {
                let mut handling = pin!(handler(request));
                self.handled(handling.as_mut(), &turn).await?
            };
            let (reply, guard) = R::reply(answer);
            let mut answer = self.begin_answer(reply, turn)?;
            if !self.finish_answer(&mut answer, guard).await? {
                return Ok(());
            }
        };
        match refused {
            None => self.finish().await,
            Some(error) => self.refuse(error).await,
        }
    }

    /// Next head; `None` at the end of the connection.
    async fn head<R: RequestForm<B>, B>(
        &mut self,
    ) -> Result<Option<RequestHead<R::Head>>, HttpError> {
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
        let Some(head) = head else { return Ok(None) };
        let spare = std::mem::take(&mut self.spare);
        R::read(head, form, spare).map(Some)
    }

    fn begin<R: RequestForm<B>, B>(&mut self, head: RequestHead<R::Head>) -> (R::Request, Turn) {
        let RequestHead {
            request,
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
            old: R::is_old(&request),
            close,
        };
        let on_upgrade = kind.upgrade.then(|| {
            let (tx, on) = OnUpgrade::pair();
            turn.upgrade = Some(tx);
            on
        });
        let upload = self.reader.begin(body, expects_continue);
        turn.has_body = upload.is_some();
        let body = upload.map_or_else(body::empty, Body::new);
        (R::whole(request, on_upgrade, body), turn)
    }

    /// Runs the handler while the peer waits for it.
    async fn handled<F>(
        &mut self,
        mut handling: Pin<&mut F>,
        turn: &Turn,
    ) -> Result<F::Output, HttpError>
    where
        F: Future,
    {
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

    async fn finish(&mut self) -> io::Result<()> {
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
