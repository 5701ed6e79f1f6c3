//! A WebSocket after its upgrade: messages in and out over any connection. It reads at most one
//! block at a time, writes everything at once, and holds no read buffer while it is empty.
//!
//! A peer can make it queue one pong and one acknowledgement. Everything else is queued by this
//! side, which checks [`Socket::unsent`] first.

use std::{
    cell::RefCell,
    collections::VecDeque,
    future::poll_fn,
    io::{self, IoSlice},
    mem,
    ops::Range,
    task::{Context, Poll, ready},
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio_util::io::poll_read_buf;

use crate::link::LinkEnd;
use crate::link_io::{LinkIo, MAX_UNSENT_BYTES};
use crate::websocket::{CONTROL_LIMIT, Decoder, Encoder, Event, MESSAGE_LIMIT, Opcode, SocketRole};

/// Bytes per read. The largest frame fits.
const BLOCK_BYTES: usize = 2 * MESSAGE_LIMIT;
/// Frames per write.
const FRAMES_PER_WRITE: usize = 32;
/// Writes per poll, before other tasks get their turn.
const WRITES_PER_POLL: usize = 16;
/// Close code of a normal end (RFC 6455, 7.4.1).
const CLOSE_NORMAL: u16 = 1000;

thread_local! {
    /// One block for all empty sockets of a thread.
    static SPARE: RefCell<BytesMut> = RefCell::default();
}

pub(crate) struct Socket {
    io: LinkIo,
    /// Limit of bytes that the kernel holds unsent.
    kernel_unsent: u32,
    decoder: Decoder,
    encoder: Encoder,
    inbox: BytesMut,
    /// Position of the last message in the inbox, unless it was assembled.
    body: Range<usize>,
    assembled: Vec<u8>,
    /// Bytes of the inbox that were read.
    used: usize,
    eof: bool,
    /// The last read ended because the connection had no more, and its next data wakes the task.
    waits: bool,
    /// The inbox holds at most the beginning of a frame.
    drained: bool,
    /// The beginning of a frame has grown since the last check.
    grown: bool,
    /// See [`Socket::take_activity`].
    told: bool,
    /// Answer to the last ping.
    pong: Option<Bytes>,
    /// The frame that is partly sent.
    begun: Bytes,
    /// Sent before the queue.
    urgent: Option<Bytes>,
    queue: VecDeque<Bytes>,
    unsent: usize,
    /// The connection may buffer data.
    unflushed: bool,
}

impl Socket {
    /// `read` holds the bytes received after the head of the upgrade.
    pub(crate) fn new(io: impl Into<LinkIo>, read: &[u8], role: SocketRole) -> Self {
        Socket {
            io: io.into(),
            kernel_unsent: MAX_UNSENT_BYTES,
            decoder: Decoder::new(role),
            encoder: Encoder::new(role),
            inbox: BytesMut::from(read),
            body: 0..0,
            assembled: Vec::new(),
            used: 0,
            eof: false,
            waits: false,
            drained: read.is_empty(),
            grown: false,
            told: false,
            pong: None,
            begun: Bytes::new(),
            urgent: None,
            queue: VecDeque::new(),
            unsent: 0,
            unflushed: false,
        }
    }

    /// Sets the bytes that the kernel may hold unsent.
    pub(crate) fn limit_kernel(&mut self, bytes: u32) {
        if mem::replace(&mut self.kernel_unsent, bytes) != bytes {
            self.io.limit_unsent(bytes);
        }
    }

    /// Number of queued bytes.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Reads available data, up to a block, unless [`Socket::advance`] may have a message left.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        self.waits = false;
        if !self.drained {
            return Poll::Ready(Ok(()));
        }
        if self.eof {
            return Poll::Ready(Err(LinkEnd::Eof));
        }
        self.discard();
        if self.inbox.capacity() == 0 {
            self.inbox = SPARE.take();
        }
        let before = self.inbox.len();
        let outcome = self.read(cx);
        self.waits = outcome.is_pending();
        if self.inbox.len() > before {
            self.drained = false;
            self.grown = true;
            return Poll::Ready(Ok(()));
        }
        self.rest();
        ready!(outcome)?;
        Poll::Ready(Err(LinkEnd::Eof))
    }

    /// True unless the last read found the end of the available data.
    pub(crate) fn has_more(&self) -> bool {
        !(self.waits && self.drained)
    }

    /// Reads until the connection has no more: TLS returns one record at a time.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        while self.inbox.len() < BLOCK_BYTES {
            self.inbox.reserve(BLOCK_BYTES - self.inbox.len());
            let room = BLOCK_BYTES - self.inbox.len();
            let mut limited = (&mut self.inbox).limit(room);
            match ready!(poll_read_buf(self.io.pin(), cx, &mut limited)) {
                Ok(0) => {
                    self.eof = true;
                    break;
                }
                Ok(_) => {}
                Err(error) => {
                    // Data before the error is processed first.
                    self.eof = true;
                    return Poll::Ready(Err(broken(&error)));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Moves to the next message, if there is one: [`Socket::message`]. Pings are answered, pongs
    /// ignored.
    pub(crate) fn advance(&mut self) -> Result<bool, LinkEnd> {
        loop {
            self.discard();
            let decoded = self.decoder.decode(&mut self.inbox);
            let Some(frame) = decoded.map_err(LinkEnd::Garbled)? else {
                self.drained = true;
                let grown = std::mem::take(&mut self.grown);
                self.told |= grown && self.inbox.first().is_some_and(|&first| !is_control(first));
                return Ok(false);
            };
            self.used = frame.end;
            self.body = frame.head..frame.end;
            match frame.event {
                Event::Whole => {
                    self.told = true;
                    return Ok(true);
                }
                Event::Assembled => {
                    self.told = true;
                    self.assembled = self.decoder.assembled();
                    return Ok(true);
                }
                Event::Ping => {
                    self.answer_ping()?;
                }
                Event::Part => self.told = true,
                Event::Pong => {}
                Event::Close(_) => {
                    self.eof = true;
                    return Err(LinkEnd::Eof);
                }
            }
        }
    }

    /// True if the peer itself has sent something since the last call: a message, or a part of a
    /// long one. Pings and pongs do not count: middleboxes make and answer those for a peer that is
    /// gone.
    pub(crate) fn take_activity(&mut self) -> bool {
        std::mem::take(&mut self.told)
    }

    /// The message found by `advance`.
    pub(crate) fn message(&self) -> &[u8] {
        if self.assembled.is_empty() {
            self.inbox.get(self.body.clone()).unwrap_or_default()
        } else {
            &self.assembled
        }
    }

    /// The message found by `advance`, for processing in place.
    pub(crate) fn message_mut(&mut self) -> &mut [u8] {
        if self.assembled.is_empty() {
            self.inbox.get_mut(self.body.clone()).unwrap_or_default()
        } else {
            &mut self.assembled
        }
    }

    /// Drops the processed bytes.
    fn discard(&mut self) {
        self.inbox.advance(self.used.min(self.inbox.len()));
        (self.used, self.body) = (0, 0..0);
        self.assembled = Vec::new();
    }

    /// Returns an empty block to the thread.
    pub(crate) fn rest(&mut self) {
        self.discard();
        if self.inbox.is_empty() {
            let mut block = std::mem::take(&mut self.inbox);
            // An error means that the thread is ending.
            let _ = SPARE.try_with(|spare| {
                let mut spare = spare.borrow_mut();
                if spare.capacity() < BLOCK_BYTES && block.try_reclaim(BLOCK_BYTES) {
                    *spare = block;
                }
            });
        }
    }

    /// Queues a message and returns its frame.
    pub(crate) fn send(
        &mut self,
        expected: usize,
        fill: impl FnOnce(&mut BytesMut),
    ) -> Result<Bytes, LinkEnd> {
        let frame = self.encode(Opcode::Binary, expected, fill)?;
        self.repeat(frame.clone());
        Ok(frame)
    }

    /// Queues an encoded frame.
    pub(crate) fn repeat(&mut self, frame: Bytes) {
        self.unsent += frame.len();
        self.queue.push_back(frame);
    }

    /// True if the slot for a message before the queue is free.
    pub(crate) fn takes_urgent(&self) -> bool {
        self.urgent.is_none()
    }

    pub(crate) fn send_urgent(&mut self, message: &[u8]) -> Result<(), LinkEnd> {
        let frame = self.encode(Opcode::Binary, message.len(), |out| out.put_slice(message))?;
        self.unsent += frame.len();
        self.urgent = Some(frame);
        Ok(())
    }

    /// Sends a ping, because middleboxes close idle connections.
    pub(crate) fn ping(&mut self) -> Result<(), LinkEnd> {
        let frame = self.encode(Opcode::Ping, 0, |_| {})?;
        self.repeat(frame);
        Ok(())
    }

    /// Queues the pong of a ping in the inbox, in the place of an unsent earlier one (RFC 6455, 5.5.3).
    fn answer_ping(&mut self) -> Result<(), LinkEnd> {
        let body = Bytes::copy_from_slice(self.inbox.get(self.body.clone()).unwrap_or_default());
        let frame = self.encode(Opcode::Pong, CONTROL_LIMIT, |out| out.put_slice(&body))?;
        self.unsent += frame.len();
        if let Some(earlier) = self.pong.replace(frame) {
            self.unsent -= earlier.len();
        }
        Ok(())
    }

    /// Queues the close frame.
    pub(crate) fn close(&mut self) -> Result<(), LinkEnd> {
        let frame = self.encode(Opcode::Close, 2, |out| out.put_u16(CLOSE_NORMAL))?;
        self.repeat(frame);
        Ok(())
    }

    fn encode(
        &mut self,
        opcode: Opcode,
        expected: usize,
        fill: impl FnOnce(&mut BytesMut),
    ) -> Result<Bytes, LinkEnd> {
        self.encoder
            .frame(opcode, expected, fill)
            .map_err(|error| LinkEnd::Broken(error.to_string()))
    }

    /// Writes all queued data; pending only while the connection is full.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        for _ in 0..WRITES_PER_POLL {
            if self.unsent == 0 {
                return self.poll_flush(cx);
            }
            let written = ready!(self.write(cx)).map_err(|error| broken(&error))?;
            if written == 0 {
                return Poll::Ready(Err(LinkEnd::Eof));
            }
            self.unflushed = true;
            self.written(written);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        if self.unflushed {
            ready!(self.io.pin().poll_flush(cx)).map_err(|error| broken(&error))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut slices = [IoSlice::new(&[]); FRAMES_PER_WRITE];
        let frames = std::iter::once(&self.begun)
            .filter(|begun| begun.has_remaining())
            .chain(&self.urgent)
            .chain(&self.pong)
            .chain(&self.queue);
        let mut count = 0;
        for (slice, frame) in slices.iter_mut().zip(frames) {
            *slice = IoSlice::new(frame);
            count += 1;
        }
        let slices = slices.get(..count).unwrap_or_default();
        self.io.pin().poll_write_vectored(cx, slices)
    }

    /// Consumes written bytes, in the order of [`Socket::write`].
    fn written(&mut self, mut bytes: usize) {
        self.unsent = self.unsent.saturating_sub(bytes);
        loop {
            let part = bytes.min(self.begun.len());
            self.begun.advance(part);
            bytes -= part;
            if bytes == 0 {
                break;
            }
            let urgent = self.urgent.take().or_else(|| self.pong.take());
            match urgent.or_else(|| self.queue.pop_front()) {
                Some(frame) => self.begun = frame,
                None => break,
            }
        }
        if self.queue.is_empty() && self.queue.capacity() > 16 {
            self.queue = VecDeque::new();
        }
    }

    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        self.io
            .pin()
            .poll_shutdown(cx)
            .map_err(|error| broken(&error))
    }

    /// Waits for the next message.
    pub(crate) async fn receive(&mut self) -> Result<&[u8], LinkEnd> {
        while !self.advance()? {
            poll_fn(|cx| {
                // A ping is answered meanwhile.
                if let Poll::Ready(outcome) = self.poll_write(cx) {
                    outcome?;
                }
                self.poll_read(cx)
            })
            .await?;
        }
        Ok(self.message())
    }

    pub(crate) async fn flush(&mut self) -> Result<(), LinkEnd> {
        poll_fn(|cx| self.poll_write(cx)).await
    }
}

/// A link may end with unread data; the next link would need another block.
impl Drop for Socket {
    fn drop(&mut self) {
        self.inbox.clear();
        self.rest();
    }
}

/// True for a close, a ping or a pong (RFC 6455, 5.5).
const fn is_control(first: u8) -> bool {
    first & 0x08 != 0
}

fn broken(error: &io::Error) -> LinkEnd {
    match error.kind() {
        // TLS reports a connection without a close_notify so.
        io::ErrorKind::UnexpectedEof => LinkEnd::Eof,
        _ => LinkEnd::Broken(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn ping_and_probe_are_answered_by_one_write() {
        let (mut peer, io) = duplex(1024);
        let mut socket = Socket::new(io, &[], SocketRole::Hub);
        let mut encoder = Encoder::new(SocketRole::Agent);
        for (opcode, body) in [
            (Opcode::Ping, &b"old"[..]),
            (Opcode::Ping, b"new"),
            (Opcode::Binary, b"probe"),
        ] {
            let frame = encoder.frame(opcode, body.len(), |out| out.put_slice(body));
            peer.write_all(&frame.unwrap()).await.unwrap();
        }
        assert_eq!(socket.receive().await.unwrap(), b"probe");
        socket.send_urgent(b"ack").unwrap();
        assert!(socket.flush().now_or_never().unwrap().is_ok());
        let mut sent = [0; 64];
        let read = peer.read(&mut sent).await.unwrap();
        assert_eq!(&sent[..read], b"\x82\x03ack\x8a\x03new");
        assert_eq!(socket.unsent(), 0);
    }

    #[tokio::test]
    async fn socket_dropped_with_unread_data_returns_its_block() {
        let (mut peer, io) = duplex(1024);
        let mut socket = Socket::new(io, &[], SocketRole::Agent);
        let frame =
            Encoder::new(SocketRole::Hub).frame(Opcode::Binary, 5, |out| out.put_slice(b"hello"));
        peer.write_all(&frame.unwrap()).await.unwrap();
        peer.write_all(&[0x82]).await.unwrap();
        assert_eq!(socket.receive().await.unwrap(), b"hello");
        let kept = || SPARE.with_borrow(BytesMut::capacity);
        assert_eq!(kept(), 0, "the socket has it");
        drop(socket);
        assert!(kept() >= BLOCK_BYTES);
    }
}
