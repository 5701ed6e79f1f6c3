//! Reading half of a served transport, and the body of a request, which shares it with the serving loop. Both read the same transport
//! in any order, and both are woken by its events. At most one piece is read ahead.

use std::{
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
    transport::Transport,
};

/// Reason to refuse bytes behind a request before its answer.
pub(crate) const UNEXPECTED_DATA: &str = "unexpected data after the request";

/// State of the peer's direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerState {
    There,
    /// The peer has ended its direction after a whole request; a peer that waits for a response
    /// does not do that.
    Left,
}

/// Transport with its unprocessed input.
pub(crate) struct ReaderState<W> {
    pub(crate) transport: W,
    pub(crate) incoming: Incoming,
    /// Decoder of the current request's body.
    pub(crate) decoder: BodyDecoder,
    pub(crate) expects_continue: Expects,
    /// A client may send its next request before an answer, and gets an answer to an invalid body.
    pub(crate) is_of_client: bool,
}

/// The reading half, shared with the body of a request.
pub(crate) struct SharedReader<W> {
    pub(crate) lent: Mutex<LentReader<W>>,
    pub(crate) wakers: Arc<Wakers>,
    /// Wakes both readers.
    waker: Waker,
}

pub(crate) struct LentReader<W> {
    /// `None` between two bodies.
    pub(crate) state: Option<Box<ReaderState<W>>>,
    /// Number of the body; earlier bodies read nothing.
    turn: u64,
}

/// State of `Expect: 100-continue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expects {
    Nothing,
    Waits,
    /// The body was polled: `100 Continue` is to be sent.
    Due,
}

#[derive(Default)]
pub(crate) struct Wakers {
    pub(crate) serving: AtomicWaker,
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

impl<W> SharedReader<W> {
    pub(crate) fn new() -> Self {
        let wakers = Arc::new(Wakers::default());
        SharedReader {
            lent: Mutex::new(LentReader {
                state: None,
                turn: 0,
            }),
            waker: wakers.clone().into(),
            wakers,
        }
    }

    /// Shares the reader with the body of a request.
    pub(crate) fn lend(self: &Arc<Self>, state: Box<ReaderState<W>>) -> UploadBody<W> {
        let mut lent = lock(&self.lent);
        let left = state.decoder.size_hint().exact();
        lent.state = Some(state);
        lent.turn += 1;
        UploadBody {
            reader: self.clone(),
            turn: lent.turn,
            left,
            ended: false,
        }
    }

    /// Takes the reader back from a body, which reads nothing more.
    pub(crate) fn reclaim(&self) -> Option<Box<ReaderState<W>>> {
        let state = lock(&self.lent).state.take();
        if state.is_some() {
            self.wakers.body.wake();
        }
        state
    }
}

impl<W: Transport> ReaderState<W> {
    /// Checks for the peer's end, and writes. Ready when everything was written.
    ///
    /// # Errors
    ///
    /// If the transport broke, or the peer has left or sent invalid input.
    pub(crate) fn poll_write(
        &mut self,
        shared: Option<&SharedReader<W>>,
        cx: &mut Context<'_>,
        out: &mut Outgoing,
    ) -> Poll<Result<PeerState, HttpError>> {
        if let Some(shared) = shared {
            shared.wakers.serving.register(cx.waker());
        }
        let mut reads = self.incoming.is_empty();
        if let BodyDecoder::Broken(reason) = self.decoder {
            if !self.is_of_client {
                return Poll::Ready(malformed(reason));
            }
            reads = false;
        }
        let has_body = !self.decoder.is_ended();
        // Before writing: after the last byte of a response, the next request may follow at once.
        let mut peer = PeerState::There;
        if reads {
            let waker = shared.map_or(cx.waker(), |it| &it.waker);
            let mut cx = Context::from_waker(waker);
            match self.incoming.poll_fill(&mut self.transport, &mut cx)? {
                Poll::Pending => {}
                Poll::Ready(true) => {
                    if let Some(shared) = shared {
                        shared.wakers.body.wake();
                    }
                }
                Poll::Ready(false) if has_body => return Poll::Ready(Err(HttpError::Cut)),
                Poll::Ready(false) => peer = PeerState::Left,
            }
        }
        if !has_body && !self.is_of_client && !self.incoming.is_empty() {
            return Poll::Ready(malformed(UNEXPECTED_DATA));
        }
        // Unread data of the body hides the news that the peer has left.
        if !self.incoming.is_empty() && self.transport.poll_gone(cx).is_ready() {
            return Poll::Ready(Err(HttpError::Cut));
        }
        let written = self.transport.poll_write(cx, out)?;
        if written.is_pending() && peer == PeerState::Left {
            return Poll::Ready(Err(HttpError::Cut));
        }
        written.map(|()| Ok(peer))
    }
}

/// Body of a request, for its handler.
pub(crate) struct UploadBody<W> {
    reader: Arc<SharedReader<W>>,
    turn: u64,
    left: Option<u64>,
    ended: bool,
}

impl<W: Transport> UploadBody<W> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, HttpError>> {
        self.reader.wakers.body.register(cx.waker());
        let LentReader { state, turn } = &mut *lock(&self.reader.lent);
        let Some(state) = state.as_mut().filter(|_| *turn == self.turn) else {
            return Poll::Ready(malformed("the exchange has ended"));
        };
        let ReaderState {
            transport,
            incoming,
            decoder,
            expects_continue,
            ..
        } = &mut **state;
        if *expects_continue == Expects::Waits {
            *expects_continue = Expects::Due;
            self.reader.wakers.serving.wake();
        }
        let mut cx = Context::from_waker(&self.reader.waker);
        let polled = incoming.poll_body(transport, decoder, &mut cx);
        if polled.is_ready() {
            self.ended = decoder.is_ended();
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
