//! Request reader: the reading half of a served stream, shared by the serving loop and the
//! request's body. Both read the same transport in any order, and both are woken by its events. At most
//! one piece is read ahead.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Wake, Waker, ready},
};

use bytes::Bytes;
use fairlead_dialer::sync::lock;
use futures_util::task::AtomicWaker;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::{
    body::BodyError,
    chunked::Piece,
    error::{HttpError, malformed},
    framing::BodyDecoder,
    incoming::Incoming,
    outgoing::Outgoing,
    policy::HeadForm,
    transport::Transport,
};

/// Reason to refuse bytes behind a request before its answer.
pub(crate) const UNEXPECTED_DATA: &str = "unexpected data after the request";

pub(crate) struct RequestReader<W> {
    state: Mutex<ReaderState<W>>,
    wakers: Arc<Wakers>,
    /// Wakes both readers.
    waker: Waker,
    /// A client may send its next request before an answer, and gets an answer to an invalid body.
    is_of_client: bool,
}

struct ReaderState<W> {
    /// `None` after the transport was handed over.
    transport: Option<W>,
    incoming: Incoming,
    /// Decoder of the current request's body.
    decoder: BodyDecoder,
    /// Number of the current request; bodies of earlier requests read nothing.
    turn: u64,
    expects_continue: Expects,
}

/// State of `Expect: 100-continue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expects {
    Nothing,
    Waits,
    /// The body was polled: `100 Continue` is to be sent.
    Due,
}

/// State of the peer's direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerState {
    There,
    /// The peer has ended its direction after a whole request; a peer that waits for a response
    /// does not do that.
    Left,
}

#[derive(Default)]
struct Wakers {
    serving: AtomicWaker,
    body: AtomicWaker,
}

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.serving.wake();
        self.body.wake();
    }
}

impl<W: Transport> RequestReader<W> {
    pub(crate) fn new(transport: W, form: HeadForm) -> Self {
        let wakers = Arc::new(Wakers::default());
        RequestReader {
            state: Mutex::new(ReaderState {
                transport: Some(transport),
                incoming: Incoming::new(form),
                decoder: BodyDecoder::Ended,
                turn: 0,
                expects_continue: Expects::Nothing,
            }),
            waker: wakers.clone().into(),
            wakers,
            is_of_client: form.is_of_client,
        }
    }

    /// Head of the next request; `None` at the peer's end.
    pub(crate) fn poll_head(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, HttpError>> {
        let state = &mut *lock(&self.state);
        let transport = state.transport.as_mut().ok_or(HttpError::Cut)?;
        state.incoming.poll_head(transport, cx)
    }

    /// True within an incomplete head.
    pub(crate) fn is_in_head(&self) -> bool {
        lock(&self.state).incoming.is_in_head()
    }

    /// Refuses bytes behind a head that wants the raw stream: its peer must wait for the answer.
    ///
    /// Called before the handler, which would connect to a target for a request that is refused.
    pub(crate) fn check_rest(&self) -> Result<(), HttpError> {
        match lock(&self.state).incoming.is_empty() {
            true => Ok(()),
            false => malformed(UNEXPECTED_DATA),
        }
    }

    /// Starts the body of a request; `None` for a request without a body.
    pub(crate) fn begin(
        self: &Arc<Self>,
        decoder: BodyDecoder,
        expects_continue: bool,
    ) -> Option<UploadBody<W>> {
        if decoder.is_ended() {
            // The end of the last body has left the state in order.
            return None;
        }
        let mut state = lock(&self.state);
        state.turn += 1;
        let size = decoder.size_hint();
        state.decoder = decoder;
        state.expects_continue = match expects_continue {
            true => Expects::Waits,
            false => Expects::Nothing,
        };
        Some(UploadBody {
            reader: self.clone(),
            turn: state.turn,
            left: size.exact(),
            ended: false,
        })
    }

    /// True with input behind the request.
    pub(crate) fn has_rest(&self) -> bool {
        !lock(&self.state).incoming.is_empty()
    }

    /// Checks for the peer's end, and writes. Ready when everything was written.
    ///
    /// # Errors
    ///
    /// If the transport broke, or the peer has left or sent invalid input.
    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        out: &mut Outgoing,
    ) -> Poll<Result<PeerState, HttpError>> {
        let state = &mut *lock(&self.state);
        let transport = state.transport.as_mut().ok_or(HttpError::Cut)?;
        let has_body = !state.decoder.is_ended();
        if has_body {
            self.wakers.serving.register(cx.waker());
        }
        let mut reads = state.incoming.is_empty();
        if let BodyDecoder::Broken(reason) = state.decoder {
            if !self.is_of_client {
                return Poll::Ready(malformed(reason));
            }
            reads = false;
        }
        // Before writing: after the last byte of a response, the next request may follow at once.
        let mut peer = PeerState::There;
        if reads {
            // Without a body only the serving loop reads.
            let waker = if has_body { &self.waker } else { cx.waker() };
            let mut cx = Context::from_waker(waker);
            match state.incoming.poll_fill(transport, &mut cx)? {
                Poll::Pending => {}
                Poll::Ready(true) => self.wakers.body.wake(),
                Poll::Ready(false) if has_body => return Poll::Ready(Err(HttpError::Cut)),
                Poll::Ready(false) => peer = PeerState::Left,
            }
        }
        if !has_body && !self.is_of_client && !state.incoming.is_empty() {
            return Poll::Ready(malformed(UNEXPECTED_DATA));
        }
        // Unread data of the body hides the news that the peer has left.
        if !state.incoming.is_empty() && transport.poll_gone(cx).is_ready() {
            return Poll::Ready(Err(HttpError::Cut));
        }
        let written = transport.poll_write(cx, out)?;
        if written.is_pending() && peer == PeerState::Left {
            return Poll::Ready(Err(HttpError::Cut));
        }
        written.map(|()| Ok(peer))
    }

    /// Writes the end of an answer, whatever its peer sends. Ready when everything was written.
    pub(crate) fn poll_write_last(
        &self,
        cx: &mut Context<'_>,
        out: &mut Outgoing,
    ) -> Poll<io::Result<()>> {
        match &mut lock(&self.state).transport {
            None => Poll::Ready(Ok(())),
            Some(transport) => transport.poll_write(cx, out),
        }
    }

    /// True once if `100 Continue` is to be sent now.
    pub(crate) fn takes_continue(&self, cx: &Context<'_>) -> bool {
        self.wakers.serving.register(cx.waker());
        let mut state = lock(&self.state);
        let due = state.expects_continue == Expects::Due;
        if due {
            state.expects_continue = Expects::Nothing;
        }
        due
    }

    /// Marks the start of the response: `100 Continue` is not sent any more.
    pub(crate) fn answers(&self) {
        lock(&self.state).expects_continue = Expects::Nothing;
    }

    /// True if the body of the request was refused.
    pub(crate) fn is_broken(&self) -> bool {
        matches!(lock(&self.state).decoder, BodyDecoder::Broken(_))
    }

    /// Reads and drops at most `limit` bytes until the peer's end.
    pub(crate) fn poll_discard(&self, cx: &mut Context<'_>, limit: &mut usize) -> Poll<()> {
        let state = &mut *lock(&self.state);
        state.turn += 1;
        let Some(transport) = &mut state.transport else {
            return Poll::Ready(());
        };
        loop {
            *limit = limit.saturating_sub(state.incoming.discard());
            if *limit == 0 {
                return Poll::Ready(());
            }
            if !matches!(ready!(state.incoming.poll_fill(transport, cx)), Ok(true)) {
                return Poll::Ready(());
            }
        }
    }

    /// Reads and drops the rest of the request's body.
    pub(crate) fn poll_drain(&self, cx: &mut Context<'_>) -> Poll<Result<(), HttpError>> {
        let state = &mut *lock(&self.state);
        let transport = state.transport.as_mut().ok_or(HttpError::Cut)?;
        state.turn += 1;
        while !state.decoder.is_ended() {
            ready!(state.incoming.poll_body(transport, &mut state.decoder, cx))?;
        }
        Poll::Ready(Ok(()))
    }

    pub(crate) fn poll_finish(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let state = &mut *lock(&self.state);
        match &mut state.transport {
            None => Poll::Ready(Ok(())),
            Some(transport) => transport.poll_finish(cx),
        }
    }

    /// Takes the transport and the bytes after the request, for another protocol.
    pub(crate) fn take(&self) -> Option<(W, Bytes)> {
        let mut state = lock(&self.state);
        let rest = state.incoming.take_rest();
        state.transport.take().map(|transport| (transport, rest))
    }
}

impl<W> RequestReader<W> {
    /// Drops the transport, even if a body still refers to it.
    pub(crate) fn abandon(&self) {
        drop(lock(&self.state).transport.take());
        self.wakers.body.wake();
    }
}

/// Body of a request, for its handler.
pub(crate) struct UploadBody<W> {
    reader: Arc<RequestReader<W>>,
    turn: u64,
    left: Option<u64>,
    ended: bool,
}

impl<W: Transport> UploadBody<W> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, HttpError>> {
        self.reader.wakers.body.register(cx.waker());
        let state = &mut *lock(&self.reader.state);
        let Some(transport) = state.transport.as_mut().filter(|_| state.turn == self.turn) else {
            return Poll::Ready(malformed("the exchange has ended"));
        };
        if state.expects_continue == Expects::Waits {
            state.expects_continue = Expects::Due;
            self.reader.wakers.serving.wake();
        }
        let mut cx = Context::from_waker(&self.reader.waker);
        let polled = state
            .incoming
            .poll_body(transport, &mut state.decoder, &mut cx);
        if polled.is_ready() {
            self.ended = state.decoder.is_ended();
            // The serving loop must see the end or the error, too.
            self.reader.wakers.serving.wake();
        }
        polled
    }
}

impl<W: Transport> HttpBody for UploadBody<W> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let upload = self.get_mut();
        if upload.ended {
            return Poll::Ready(None);
        }
        match ready!(upload.poll(cx)) {
            Ok(Piece::Data(data)) => {
                let left = upload.left.as_mut();
                if let Some(left) = left {
                    *left = left.saturating_sub(data.len() as u64);
                }
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            Ok(Piece::Trailers(trailers)) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            Ok(Piece::End | Piece::More) => Poll::Ready(None),
            Err(error) => {
                upload.ended = true;
                Poll::Ready(Some(Err(error.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
