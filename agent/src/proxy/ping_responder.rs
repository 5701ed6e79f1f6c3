//! Keeps a client's pings from an API server that may have closed the connection. kubectl pings every five
//! seconds while it reads, and kube-apiserver closes once its last byte is in the socket's buffer. A ping to a
//! closed socket causes a reset, and the reset discards unread data: megabytes of an `exec` or a `cp`, over
//! SPDY even without an error. While the server sends, pings are therefore answered here, between two of its
//! frames (RFC 6455, 5.5.2; SPDY/3.1, 2.6.5). During silence they pass and keep the connection open.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use fairlead_exchange::frames::{Frames, Pong, Protocol};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

/// Silence after which the server has no data on its way, except over a slower path.
const SERVER_SILENCE: Duration = Duration::from_secs(1);
/// Maximum size of queued answers, in bytes. Further pings get none.
const MAX_QUEUED_PONG_BYTES: usize = 1024;

/// Connection to the API server, after its `101`.
pub(crate) struct PingResponder<IO> {
    io: IO,
    /// Frame position in the client's data, without answered pings.
    client_frames: Frames,
    server_frames: Frames,
    /// Possible start of a ping, withheld until it is complete.
    candidate: Vec<u8>,
    /// Withheld bytes that were no ping; to be written.
    released: VecDeque<u8>,
    pongs: VecDeque<u8>,
    /// Reader to wake for a queued answer.
    reader: Option<Waker>,
    /// Time of the last data from the server.
    last_read: Option<Instant>,
}

impl<IO> PingResponder<IO> {
    pub(crate) fn new(io: IO, protocol: Protocol) -> Self {
        PingResponder {
            io,
            client_frames: Frames::new(protocol),
            server_frames: Frames::new(protocol),
            candidate: Vec::new(),
            released: VecDeque::new(),
            pongs: VecDeque::new(),
            reader: None,
            last_read: None,
        }
    }

    /// Whether unread data of the server, and so its end, may be on the way.
    fn may_have_unread_data(&self) -> bool {
        match self.last_read {
            Some(last_read) => self.reader.is_none() || last_read.elapsed() < SERVER_SILENCE,
            None => false,
        }
    }

    /// Collects the bytes of a possible ping from `buf`.
    fn collect_ping(&mut self, buf: &[u8]) -> usize {
        for (written, &byte) in (1..).zip(buf) {
            self.candidate.push(byte);
            match self.client_frames.protocol().pong(&self.candidate) {
                Pong::Unknown => {}
                Pong::Whole(pong) => {
                    self.candidate.clear();
                    if self.pongs.len() + pong.len() <= MAX_QUEUED_PONG_BYTES {
                        self.pongs.extend(pong);
                    }
                    if let Some(reader) = self.reader.take() {
                        reader.wake();
                    }
                    return written;
                }
                Pong::None => {
                    self.release();
                    return written;
                }
            }
        }
        buf.len()
    }

    fn release(&mut self) {
        self.client_frames.follow(&self.candidate);
        self.released.extend(self.candidate.drain(..));
    }
}

impl<IO: AsyncWrite + Unpin> PingResponder<IO> {
    fn poll_released(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.released.is_empty() {
            let (bytes, _) = self.released.as_slices();
            let written = ready!(Pin::new(&mut self.io).poll_write(cx, bytes))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.released.drain(..written);
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for PingResponder<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let it = &mut *self;
        if !it.pongs.is_empty() && it.server_frames.may_begin() {
            let (pongs, _) = it.pongs.as_slices();
            let now = pongs.len().min(buf.remaining());
            buf.put_slice(pongs.get(..now).unwrap_or_default());
            it.pongs.drain(..now);
            return Poll::Ready(Ok(()));
        }
        // With a queued answer, reads stop at the end of the frame.
        let limit = match it.pongs.is_empty() {
            true => buf.remaining(),
            false => buf.remaining().min(it.server_frames.rest()),
        };
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(limit));
        match Pin::new(&mut it.io).poll_read(cx, &mut part) {
            Poll::Ready(Ok(())) => {
                it.server_frames.follow(part.filled());
                let read = part.filled().len();
                buf.advance(read);
                it.last_read = Some(Instant::now());
                it.reader = None;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                it.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for PingResponder<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_released(cx))?;
        if !self.candidate.is_empty() {
            return Poll::Ready(Ok(self.collect_ping(buf)));
        }
        let limit = match self.may_have_unread_data() {
            true => self.client_frames.before_ping(buf),
            false => buf.len(),
        };
        if limit == 0 {
            return Poll::Ready(Ok(self.collect_ping(buf)));
        }
        let now = buf.get(..limit).unwrap_or(buf);
        let written = ready!(Pin::new(&mut self.io).poll_write(cx, now))?;
        self.client_frames
            .follow(now.get(..written).unwrap_or_default());
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_released(cx))?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.release();
        ready!(self.poll_released(cx))?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
