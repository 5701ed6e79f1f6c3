//! The link as a byte stream: what is written becomes DATA, what DATA brings is read. It is driven inside the session's
//! one task. It never waits for the layer above: incoming bytes go into a queue, which is bounded by the session's
//! receive budget, and a socket that cannot be written is read all the same (see [`Link::pump`]).

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

use super::{
    LinkEnd, MESSAGE, binary,
    frame::{self, Frame, Hello},
    marks::Marks,
};
use crate::session::{CloseReason, Limits};

/// What a queued message costs beside its body, so that a flood of tiny ones is bounded too.
const OVERHEAD: usize = 64;

pub(crate) struct Link<IO> {
    ws: WebSocketStream<IO>,
    marks: Marks,
    /// The largest body of a DATA message.
    body: usize,
    peer_streams: usize,
    queue: VecDeque<Bytes>,
    queued: usize,
    budget: usize,
    received: u64,
    sent: u64,
    /// The peer's mark that waits for its answer. A peer has one out at a time; a newer one takes its place.
    answer: Option<u64>,
    close: Option<CloseReason>,
    end: Option<LinkEnd>,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Link<IO> {
    pub(super) fn new(
        ws: WebSocketStream<IO>,
        peer: Hello,
        limits: &Limits,
    ) -> Result<Self, LinkEnd> {
        if peer.received != 0 {
            return Err(LinkEnd::Protocol(
                "a session of which nothing is known".to_owned(),
            ));
        }
        Ok(Link {
            ws,
            marks: Marks::new(),
            body: MESSAGE.min(peer.max_message as usize) - 1,
            peer_streams: peer.max_streams as usize,
            queue: VecDeque::new(),
            queued: 0,
            budget: limits.budget(),
            received: 0,
            sent: 0,
            answer: None,
            close: None,
            end: None,
        })
    }

    /// How many streams the peer wants at most.
    pub(crate) fn peer_streams(&self) -> usize {
        self.peer_streams
    }

    /// Bytes that came and went as DATA.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.received, self.sent)
    }

    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.marks.rtt()
    }

    /// CLOSE is the last message: behind everything written so far. `poll_flush` sends it.
    pub(crate) fn close_with(&mut self, reason: CloseReason) {
        self.close = Some(reason);
    }

    /// Reads what has arrived, up to the budget, without anybody asking for it; says whether anything came. The session
    /// calls this at the end of each of its polls: whenever the queue has room again, the socket is read again, and a
    /// reader that waits for its own writes cannot stop the peer's writes (libp2p/rust-yamux#227).
    pub(crate) fn pump(&mut self, cx: &mut Context<'_>) -> bool {
        let before = self.received;
        while self.end.is_none() && self.queued < self.budget {
            if self.poll_message(cx).is_pending() {
                break;
            }
        }
        if self.queued >= self.budget {
            // Not hearing the peer is our own doing then.
            self.marks.heard();
        }
        self.received != before || self.end.is_some()
    }

    /// Keeps time: marks that are due, and a peer that is dead. Called after [`Link::pump`], so that what has arrived
    /// counts as heard.
    pub(crate) fn poll_marks(&mut self, cx: &mut Context<'_>) -> Result<(), LinkEnd> {
        self.marks.poll(cx).map_err(|silence| {
            let end = LinkEnd::Silent(silence);
            self.end.get_or_insert(end).clone()
        })
    }

    /// Takes one message from the WebSocket, if one is there.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let outcome = match ready!(Pin::new(&mut self.ws).poll_next(cx)) {
            None => Err(LinkEnd::Eof),
            Some(Err(error)) => Err(error.into()),
            Some(Ok(message)) => {
                self.marks.heard();
                self.take(message)
            }
        };
        if let Err(end) = outcome {
            self.end.get_or_insert(end);
        }
        Poll::Ready(())
    }

    fn take(&mut self, message: Message) -> Result<(), LinkEnd> {
        if message.is_ping() || message.is_pong() {
            return Ok(());
        }
        let bytes = binary(message)?;
        let wrong = |what: &str| Err(LinkEnd::Protocol(what.to_owned()));
        match frame::decode(&bytes) {
            Ok(Frame::Data(body)) => {
                self.received += body.len() as u64;
                self.queued += body.len() + OVERHEAD;
                self.queue.push_back(bytes.slice(1..));
                Ok(())
            }
            Ok(Frame::Mark(count)) if count == self.received => {
                self.answer = Some(count);
                Ok(())
            }
            Ok(Frame::Mark(_)) => wrong("a mark that does not agree with the bytes received"),
            Ok(Frame::MarkAck(count)) if self.marks.answered(count) => Ok(()),
            Ok(Frame::MarkAck(_)) => wrong("an answer to no mark"),
            Ok(Frame::Close(code)) => Err(LinkEnd::Closed(CloseReason::from_code(code))),
            Ok(Frame::Hello(_)) => wrong("a second HELLO"),
            Err(error) => Err(LinkEnd::Protocol(error.to_string())),
        }
    }

    /// Gives the WebSocket the control messages that wait, and says whether it takes more.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        loop {
            ready!(Pin::new(&mut self.ws).poll_ready(cx))?;
            let frame = if let Some(count) = self.answer.take() {
                Frame::MarkAck(count)
            } else if self.marks.waiting() {
                self.marks.sent(self.sent);
                Frame::Mark(self.sent)
            } else {
                return Poll::Ready(Ok(()));
            };
            Pin::new(&mut self.ws).start_send(Message::Binary(frame.encode()))?;
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, LinkEnd>> {
        if self.end.is_some() {
            // Nobody reads it any more, but what the peer said before it closed is still to be read: the reader, who is
            // told of the end behind that, must not be stopped by a writer.
            return Poll::Ready(Ok(data.len()));
        }
        ready!(self.poll_ready(cx))?;
        let body = data.get(..self.body).unwrap_or(data);
        let mut message = BytesMut::with_capacity(1 + body.len());
        message.put_u8(frame::DATA);
        message.put_slice(body);
        Pin::new(&mut self.ws).start_send(Message::Binary(message.freeze()))?;
        self.sent += body.len() as u64;
        Poll::Ready(Ok(body.len()))
    }

    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        if self.end.is_some() {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_ready(cx))?;
        if let Some(reason) = self.close.take() {
            let frame = Frame::Close(reason.code());
            Pin::new(&mut self.ws).start_send(Message::Binary(frame.encode()))?;
        }
        Pin::new(&mut self.ws).poll_flush(cx).map_err(LinkEnd::from)
    }

    /// A socket that cannot be written is read instead; a socket that cannot be written any more ends the link.
    fn written<T>(
        &mut self,
        outcome: Poll<Result<T, LinkEnd>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        match outcome {
            Poll::Ready(Ok(done)) => Poll::Ready(Ok(done)),
            Poll::Ready(Err(end)) => {
                // A peer that closed says so in what it sent before: that is the better reason.
                self.pump(cx);
                Poll::Ready(Err(self.end.get_or_insert(end).clone().into()))
            }
            Poll::Pending => {
                self.pump(cx);
                Poll::Pending
            }
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for Link<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let link = self.get_mut();
        loop {
            if let Some(front) = link.queue.front_mut() {
                let taken = front.len().min(buf.remaining());
                buf.put_slice(&front.split_to(taken));
                link.queued -= taken;
                if !front.has_remaining() {
                    link.queue.pop_front();
                    link.queued -= OVERHEAD;
                }
                return Poll::Ready(Ok(()));
            }
            if let Some(end) = link.end.clone() {
                return Poll::Ready(Err(end.into()));
            }
            ready!(link.poll_message(cx));
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Link<IO> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let link = self.get_mut();
        let outcome = link.poll_send(cx, data);
        link.written(outcome, cx)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let link = self.get_mut();
        let outcome = link.poll_sent(cx);
        link.written(outcome, cx)
    }

    /// Ends the WebSocket; the peer's own close frame is not waited for.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let link = self.get_mut();
        let outcome = match link.poll_sent(cx) {
            Poll::Ready(Ok(())) => Pin::new(&mut link.ws).poll_close(cx).map_err(LinkEnd::from),
            other => other,
        };
        ready!(link.written(outcome, cx))?;
        Pin::new(link.ws.get_mut()).poll_shutdown(cx)
    }
}
