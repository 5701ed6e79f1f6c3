//! A client's pings never reach an API server that may have closed. kubectl pings every five seconds, for as long as it
//! reads; kube-apiserver closes as soon as its last byte is in its socket's buffer; and where a ping meets a closed socket,
//! the reset takes what of that buffer has not been read: megabytes of an `exec` or a `cp`, which over SPDY nobody even
//! notices. So while the server is being heard, pings are answered here, between two of its frames, as it would (RFC 6455,
//! 5.5.2; SPDY/3.1, 2.6.5). When it has been silent for a moment, they pass: they keep that connection open.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use fairlead_dialer::frames::{Frames, Pong, Protocol};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

/// A server that has said nothing for so long has nothing on its way, but over a path that is slower still.
const SERVER_SILENCE: Duration = Duration::from_secs(1);
/// Answers that wait for the end of a frame, in bytes. A client that pings faster than that goes without.
const MAX_QUEUED_PONG_BYTES: usize = 1024;

/// The connection to the API server, from the first byte after its `101` on.
pub(crate) struct PingResponder<IO> {
    io: IO,
    /// Where in what the client says its next byte stands, pings that were answered left out.
    client_frames: Frames,
    server_frames: Frames,
    /// What may become a ping, and is held until it is known.
    candidate: Vec<u8>,
    /// What was held and is no ping after all.
    released: VecDeque<u8>,
    pongs: VecDeque<u8>,
    /// Who reads and was told to wait.
    reader: Option<Waker>,
    /// When the server has last said something.
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

    /// Whether the server may have said more than has been read, and so its end, too.
    fn may_have_unread_data(&self) -> bool {
        match self.last_read {
            Some(last_read) => self.reader.is_none() || last_read.elapsed() < SERVER_SILENCE,
            None => false,
        }
    }

    /// Takes what may be a ping, as far as it is there.
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
        // Where an answer waits, no further than to the end of the frame.
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
