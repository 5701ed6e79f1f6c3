//! HTTP/1.1 server with keep-alive on one stream, in the caller's task.
//!
//! An idle stream has no deadline of its own: it counts against the session's limit and ends with
//! the session, whose probes have deadlines.

use std::{
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::BufMut;
use fairlead_api::{Code, Failure, Reason, headers::AGENT_CODE};
use fairlead_dialer::Stream;
use http::{HeaderMap, Request, Response, StatusCode, header};
use tokio::{
    sync::oneshot,
    time::{Sleep, sleep, timeout},
};

use crate::{
    body::{self, Body},
    error::{HttpError, malformed},
    framing::BodyEncoder,
    head::{self, RequestHead, RequestKind},
    lines::{
        reply::Reply,
        request::{LinesForm, MapForm, ReceivedRequest, RequestForm},
    },
    outgoing::Outgoing,
    request_reader::{PeerState, RequestReader, UNEXPECTED_DATA},
    sending::{Filled, Sending},
    transport::Transport,
    upgrade::{OnUpgrade, Upgraded},
};

/// Time limit for a head, from its first byte.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for the unread rest of a body.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
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

/// Serves requests on any transport as [`serve`], with heads in lines if they can be read so. The guard beside each answer is
/// dropped as soon as its body has ended.
///
/// # Errors
///
/// As for [`serve`].
pub async fn serve_lines<W, H, F, G>(transport: W, handler: H) -> io::Result<()>
where
    W: Transport,
    H: Fn(ReceivedRequest) -> F,
    F: Future<Output = (Reply, G)>,
{
    serve_as::<LinesForm<G>, _, _, _>(transport, handler).await
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
    serve_as::<MapForm, _, _, _>(transport, handler).await
}

/// Serves requests in the form that the handler takes.
async fn serve_as<R, W, H, F>(transport: W, handler: H) -> io::Result<()>
where
    R: RequestForm,
    W: Transport,
    H: Fn(R::Request) -> F,
    F: Future<Output = R::Answer>,
{
    let mut serving = Serving {
        reader: Arc::new(RequestReader::new(transport)),
        out: Outgoing::default(),
    };
    loop {
        let head = match serving.head::<R>().await {
            Ok(Some(head)) => head,
            Ok(None) => return serving.finish().await,
            Err(HttpError::TooLarge) => return serving.too_large().await,
            Err(error) => return Err(error.into()),
        };
        if head.kind.upgrade {
            serving.reader.check_rest()?;
        }
        let (request, turn) = serving.begin::<R>(head);
        let answer = serving.handled(handler(request), &turn).await?;
        let (reply, guard) = R::reply(answer);
        if !serving.answer(reply, guard, turn).await? {
            return Ok(());
        }
    }
}

struct Serving<W> {
    reader: Arc<RequestReader<W>>,
    out: Outgoing,
}

impl<W> Drop for Serving<W> {
    /// On every return: a body that is still held must not delay the reset of the stream.
    fn drop(&mut self) {
        self.reader.abandon();
    }
}

/// Properties of a request until its response.
struct Turn {
    kind: RequestKind,
    upgrade: Option<oneshot::Sender<Upgraded>>,
    takes_trailers: bool,
    expects_continue: bool,
    close: bool,
}

impl<W: Transport> Serving<W> {
    async fn head<R: RequestForm>(&self) -> Result<Option<RequestHead<R::Head>>, HttpError> {
        let mut deadline: Option<Pin<Box<Sleep>>> = None;
        let head = poll_fn(|cx| {
            if let Poll::Ready(head) = self.reader.poll_head(cx) {
                return Poll::Ready(head);
            }
            if self.reader.is_in_head() {
                let deadline = deadline.get_or_insert_with(|| Box::pin(sleep(HEAD_TIMEOUT)));
                if deadline.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(malformed("the head was not complete in time"));
                }
            }
            Poll::Pending
        });
        let head = head.await?;
        head.map(R::read).transpose()
    }

    fn begin<R: RequestForm>(&self, head: RequestHead<R::Head>) -> (R::Request, Turn) {
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
            takes_trailers,
            expects_continue,
            close,
        };
        let on_upgrade = kind.upgrade.then(|| {
            let (tx, on) = OnUpgrade::pair();
            turn.upgrade = Some(tx);
            on
        });
        let upload = self.reader.begin(body, expects_continue);
        let body = upload.map_or_else(body::empty, Body::new);
        (R::whole(request, on_upgrade, body), turn)
    }

    /// Runs the handler while the peer waits for it.
    async fn handled<F: Future>(
        &mut self,
        handling: F,
        turn: &Turn,
    ) -> Result<F::Output, HttpError> {
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
    async fn answer<G>(&mut self, answer: Reply, guard: G, turn: Turn) -> io::Result<bool> {
        let (mut head, body) = answer.into_parts();
        if turn.kind.head {
            head.tell_length(&body);
        }
        let status = head.status();
        if turn.expects_continue {
            self.reader.answers();
        }
        let switched = turn.kind.is_switched_by(status);
        if status.is_informational() && !switched {
            return Err(HttpError::Malformed("the response was not requested").into());
        }
        let bodiless = switched || turn.kind.is_bodiless(status);
        let encoder = if bodiless {
            BodyEncoder::Nothing
        } else {
            let framing = head.framing(&body, turn.takes_trailers);
            framing.map_err(io::Error::other)?
        };
        head.write(&encoder, self.out.tail());
        if let (true, Some(upgrade)) = (switched, turn.upgrade) {
            return self.switch(upgrade).await;
        }
        let close = turn.close || head.closes();
        // A watch would keep the buffer in which its head arrived.
        drop(head);
        self.send(Sending::gathering(body, encoder)).await?;
        drop(guard);
        self.drain().await?;
        self.out.rest();
        if close {
            self.finish().await?;
        }
        Ok(!close)
    }

    /// Drops the unread rest of the request's body. Mostly there is none, and no timer is needed.
    async fn drain(&self) -> Result<(), HttpError> {
        match poll_fn(|cx| Poll::Ready(self.reader.poll_drain(cx))).await {
            Poll::Ready(drained) => drained,
            Poll::Pending => timeout(DRAIN_TIMEOUT, poll_fn(|cx| self.reader.poll_drain(cx)))
                .await
                .map_err(|_| HttpError::Malformed("the rest of the body did not arrive in time"))?,
        }
    }

    async fn send(&mut self, mut sending: Sending) -> io::Result<()> {
        poll_fn(|cx| self.poll_send(cx, &mut sending)).await
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, sending: &mut Sending) -> Poll<io::Result<()>> {
        for _ in 0..WRITES_PER_POLL {
            // Without the reader's lock: the response may echo the request's own body.
            let filled = sending.fill(cx, &mut self.out).map_err(io::Error::other)?;
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
        if !read.is_empty() {
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

    /// Responds with 431, the only refusal with a response: the user can shorten cookies or tokens.
    async fn too_large(&mut self) -> io::Result<()> {
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
        head::write_response(status, &headers, &framing, self.out.tail());
        self.out.tail().extend_from_slice(&body);
        if let Some((mut transport, _)) = self.reader.take() {
            poll_fn(|cx| transport.poll_write(cx, &mut self.out)).await?;
            poll_fn(|cx| transport.poll_finish(cx)).await?;
        }
        Ok(())
    }
}
