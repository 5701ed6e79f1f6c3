//! One request and its response on one transport, driven by polling: by the caller until the response's
//! head is there, then by the response's body, which also sends the rest of the upload. There is no
//! background task.

use std::{
    future::{Future, poll_fn},
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderName, Request, StatusCode, header};
use tokio::time::{Sleep, sleep};

use crate::{
    body::{Body, BodyError},
    chunked::Piece,
    error::{HttpError, malformed},
    framing::{self, BodyDecoder, BodyEncoder},
    head::{self, AddedField, RequestKind, ResponseHead, WrittenHead},
    incoming::Incoming,
    lines::{request::WrittenLines, response::ResponseForm},
    outgoing::Outgoing,
    sending::{Filled, Sending},
    transport::Transport,
};

/// Time that an upload waits for `100 Continue`, as in curl.
const CONTINUE_TIMEOUT: Duration = Duration::from_secs(1);
/// Limit of informational responses in one exchange.
const MAX_INFORMATIONAL: usize = 16;
/// Writes per poll, before other tasks get their turn.
const WRITES_PER_POLL: usize = 16;

/// Reason for a missing response.
#[derive(Debug)]
pub(crate) enum InFlightError {
    /// The body of the request failed.
    Request(BodyError),
    Broken(HttpError),
}

/// A request before it has a transport.
pub(crate) struct PendingRequest {
    out: Outgoing,
    upload: UploadState,
    /// The whole head, if the request may be sent again: a read without a body, or a CONNECT.
    again: Option<Bytes>,
    pub(crate) kind: RequestKind,
}

enum UploadState {
    Done,
    /// Waits for `100 Continue`, or for a timeout.
    Held(Pin<Box<Sleep>>, Sending),
    Going(Sending),
    /// The peer accepts no more data. It may have responded all the same.
    Refused(io::Error),
}

impl PendingRequest {
    /// Encodes the head of a request: headers of its sender, and its own ones that are `kept`.
    ///
    /// # Errors
    ///
    /// If the request contradicts itself about its length.
    pub(crate) fn new(
        request: Request<Body>,
        added: &[AddedField<'_>],
        kept: &dyn Fn(&HeaderName) -> bool,
    ) -> Result<Self, BodyError> {
        let (parts, body) = request.into_parts();
        let encoder = framing::of_request(&parts.headers, &body, kept(&header::TRAILER))?;
        let head = WrittenHead {
            request: &parts,
            added,
            kept,
        };
        let kind = RequestKind::of(&head);
        let mut out = Outgoing::default();
        head.write(&encoder, out.tail());
        let sending = Sending::new(body, encoder);
        let upload = if sending.is_done() {
            UploadState::Done
        } else if head.keeps(&header::EXPECT) && head::expects_continue(&parts.headers) {
            UploadState::Held(Box::pin(sleep(CONTINUE_TIMEOUT)), sending)
        } else {
            UploadState::Going(sending)
        };
        // RFC 9110 lets a client repeat PUT and DELETE, too. A second DELETE would answer 404 for the success of the first.
        // A CONNECT without an answer has carried no byte.
        let is_safe = parts.method.is_safe() || kind.connect;
        let repeatable = matches!(upload, UploadState::Done) && is_safe;
        Ok(PendingRequest {
            again: repeatable.then(|| out.sealed()),
            out,
            upload,
            kind,
        })
    }
}

impl PendingRequest {
    /// Ends the head of a request in lines, which asks for no upgrade and no `100 Continue`.
    ///
    /// # Errors
    ///
    /// As for [`PendingRequest::new`].
    pub(crate) fn of_lines(written: WrittenLines<'_>, body: Body) -> Result<Self, BodyError> {
        let kind = written.kind();
        let is_safe = written.is_safe();
        let (head, encoder) = written.end(&body)?;
        if encoder != BodyEncoder::Nothing {
            return Ok(PendingRequest {
                out: Outgoing::begun(head),
                upload: UploadState::Going(Sending::new(body, encoder)),
                again: None,
                kind,
            });
        }
        let head = head.freeze();
        Ok(PendingRequest {
            again: is_safe.then(|| head.clone()),
            out: head.into(),
            upload: UploadState::Done,
            kind,
        })
    }
}

impl PendingRequest {
    /// True for a read without a body, and for a CONNECT.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.again.is_some()
    }

    /// Head and kind for another server, if the request is a read without a body and switches no protocol.
    pub(crate) fn repeatable(&self) -> Option<(Bytes, RequestKind)> {
        let head = self.again.clone().filter(|_| !self.kind.upgrade)?;
        Some((head, self.kind))
    }

    pub(crate) fn repeated(head: Bytes, kind: RequestKind) -> Self {
        PendingRequest {
            out: head.clone().into(),
            upload: UploadState::Done,
            again: Some(head),
            kind,
        }
    }
}

/// A request on its transport. Dropping it resets the transport.
pub(crate) struct InFlight<W> {
    transport: W,
    incoming: Incoming,
    /// Boxed, because each future that it moves through would be larger by twice its size.
    pending: Box<PendingRequest>,
    /// True once the transport took any byte.
    sent: bool,
}

impl<W: Transport> InFlight<W> {
    pub(crate) fn new(transport: W, pending: Box<PendingRequest>) -> Self {
        InFlight {
            transport,
            incoming: Incoming::default(),
            pending,
            sent: false,
        }
    }

    pub(crate) fn kind(&self) -> RequestKind {
        self.pending.kind
    }

    pub(crate) async fn answer<R: ResponseForm>(
        &mut self,
    ) -> Result<ResponseHead<R>, InFlightError> {
        let mut informational = 0;
        poll_fn(|cx| self.poll_answer(cx, &mut informational)).await
    }

    fn poll_answer<R: ResponseForm>(
        &mut self,
        cx: &mut Context<'_>,
        informational: &mut usize,
    ) -> Poll<Result<ResponseHead<R>, InFlightError>> {
        loop {
            if let Poll::Ready(Err(error)) = self.poll_upload(cx) {
                return Poll::Ready(Err(InFlightError::Request(error)));
            }
            let head = match ready!(self.poll_head::<R>(cx)) {
                Ok(head) => head,
                Err(error) => return Poll::Ready(Err(InFlightError::Broken(self.cause(error)))),
            };
            let status = head.response.status();
            if !status.is_informational() || self.pending.kind.is_switched_by(status) {
                return Poll::Ready(Ok(head));
            }
            *informational += 1;
            if *informational > MAX_INFORMATIONAL {
                let endless = HttpError::Malformed("too many informational responses");
                return Poll::Ready(Err(InFlightError::Broken(endless)));
            }
            if status == StatusCode::CONTINUE {
                self.go_on();
            }
        }
    }

    fn poll_head<R: ResponseForm>(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ResponseHead<R>, HttpError>> {
        let head = ready!(self.incoming.poll_head(&mut self.transport, cx))?;
        let head = head.ok_or(HttpError::Cut)?;
        Poll::Ready(R::read(head, self.pending.kind))
    }

    /// The first failure is the cause.
    fn cause(&mut self, error: HttpError) -> HttpError {
        match std::mem::replace(&mut self.pending.upload, UploadState::Done) {
            UploadState::Refused(first) => first.into(),
            other => {
                self.pending.upload = other;
                error
            }
        }
    }

    /// Starts the upload after `100 Continue`.
    fn go_on(&mut self) {
        self.pending.upload = match std::mem::replace(&mut self.pending.upload, UploadState::Done) {
            UploadState::Held(_, sending) => UploadState::Going(sending),
            other => other,
        };
    }

    /// Ready when everything was sent, or nothing more can be.
    ///
    /// # Errors
    ///
    /// Those of the body's source.
    pub(crate) fn poll_upload(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        if let UploadState::Held(timer, _) = &mut self.pending.upload
            && timer.as_mut().poll(cx).is_ready()
        {
            self.go_on();
        }
        for _ in 0..WRITES_PER_POLL {
            let pending = &mut self.pending;
            let filled = match &mut pending.upload {
                UploadState::Refused(_) => return Poll::Ready(Ok(())),
                UploadState::Done => Filled::Done,
                UploadState::Held(..) => Filled::Waiting,
                UploadState::Going(sending) => sending.fill(cx, &mut pending.out)?,
            };
            let before = pending.out.len();
            let written = self.transport.poll_write(cx, &mut pending.out);
            self.sent |= pending.out.len() < before;
            match written {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => {
                    pending.upload = UploadState::Refused(error);
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Ok(())) => {}
            }
            match filled {
                Filled::Full => {}
                Filled::Waiting => return Poll::Pending,
                Filled::Done => {
                    pending.upload = UploadState::Done;
                    return Poll::Ready(Ok(()));
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    pub(crate) fn poll_body(
        &mut self,
        decoder: &mut BodyDecoder,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Piece, HttpError>> {
        self.incoming.poll_body(&mut self.transport, decoder, cx)
    }

    /// The same request for another transport, if this transport was dead before the request could have been
    /// read.
    pub(crate) fn again(self) -> Option<Box<PendingRequest>> {
        if self.incoming.heard() {
            return None;
        }
        let PendingRequest {
            out,
            upload,
            again,
            kind,
        } = *self.pending;
        if let Some(head) = again {
            return Some(Box::new(PendingRequest::repeated(head, kind)));
        }
        let refused = matches!(upload, UploadState::Refused(_));
        (!self.sent && !refused).then(|| {
            Box::new(PendingRequest {
                out,
                upload,
                again: None,
                kind,
            })
        })
    }

    /// The transport, if it is fit for another request: everything was sent, and all input was part of
    /// the response.
    pub(crate) fn finish(self) -> Option<W> {
        let sent = matches!(self.pending.upload, UploadState::Done) && self.pending.out.is_empty();
        (sent && self.incoming.is_empty()).then_some(self.transport)
    }

    /// The transport, and the bytes after the head of a response that ended HTTP on it.
    ///
    /// # Errors
    ///
    /// If the request was not sent completely.
    pub(crate) fn into_raw(mut self) -> Result<(W, Bytes), HttpError> {
        let sent = matches!(self.pending.upload, UploadState::Done) && self.pending.out.is_empty();
        if !sent {
            return malformed("the protocol was switched before the end of the request");
        }
        Ok((self.transport, self.incoming.take_rest()))
    }
}
