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
const QUIET: Duration = Duration::from_secs(1);
/// Answers that wait for the end of a frame, in bytes. A client that pings faster than that goes without.
const WAITING: usize = 1024;

/// The connection to the API server, from the first byte after its `101` on.
pub(crate) struct Ponged<IO> {
    io: IO,
    /// Where in what the client says its next byte stands, pings that were answered left out.
    asked: Frames,
    said: Frames,
    /// What may become a ping, and is held until it is known.
    held: Vec<u8>,
    /// What was held and is no ping after all.
    released: VecDeque<u8>,
    pongs: VecDeque<u8>,
    /// Who reads and was told to wait.
    waiting: Option<Waker>,
    /// When the server has last said something.
    heard: Option<Instant>,
}

impl<IO> Ponged<IO> {
    pub(crate) fn new(io: IO, protocol: Protocol) -> Self {
        Ponged {
            io,
            asked: Frames::new(protocol),
            said: Frames::new(protocol),
            held: Vec::new(),
            released: VecDeque::new(),
            pongs: VecDeque::new(),
            waiting: None,
            heard: None,
        }
    }

    /// Whether the server may have said more than has been read, and so its end, too.
    fn is_behind(&self) -> bool {
        match self.heard {
            Some(heard) => self.waiting.is_none() || heard.elapsed() < QUIET,
            None => false,
        }
    }

    /// Takes what may be a ping, as far as it is there.
    fn hold(&mut self, buf: &[u8]) -> usize {
        for (taken, &byte) in (1..).zip(buf) {
            self.held.push(byte);
            match self.asked.protocol().pong(&self.held) {
                Pong::Unknown => {}
                Pong::Whole(pong) => {
                    self.held.clear();
                    if self.pongs.len() + pong.len() <= WAITING {
                        self.pongs.extend(pong);
                    }
                    if let Some(reader) = self.waiting.take() {
                        reader.wake();
                    }
                    return taken;
                }
                Pong::None => {
                    self.release();
                    return taken;
                }
            }
        }
        buf.len()
    }

    fn release(&mut self) {
        self.asked.follow(&self.held);
        self.released.extend(self.held.drain(..));
    }
}

impl<IO: AsyncWrite + Unpin> Ponged<IO> {
    fn poll_released(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.released.is_empty() {
            let (bytes, _) = self.released.as_slices();
            let taken = ready!(Pin::new(&mut self.io).poll_write(cx, bytes))?;
            if taken == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.released.drain(..taken);
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Ponged<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let it = &mut *self;
        if !it.pongs.is_empty() && it.said.may_begin() {
            let (pongs, _) = it.pongs.as_slices();
            let now = pongs.len().min(buf.remaining());
            buf.put_slice(pongs.get(..now).unwrap_or_default());
            it.pongs.drain(..now);
            return Poll::Ready(Ok(()));
        }
        // Where an answer waits, no further than to the end of the frame.
        let most = match it.pongs.is_empty() {
            true => buf.remaining(),
            false => buf.remaining().min(it.said.rest()),
        };
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(most));
        match Pin::new(&mut it.io).poll_read(cx, &mut part) {
            Poll::Ready(Ok(())) => {
                it.said.follow(part.filled());
                let read = part.filled().len();
                buf.advance(read);
                it.heard = Some(Instant::now());
                it.waiting = None;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                it.waiting = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Ponged<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_released(cx))?;
        if !self.held.is_empty() {
            return Poll::Ready(Ok(self.hold(buf)));
        }
        let most = match self.is_behind() {
            true => self.asked.before_ping(buf),
            false => buf.len(),
        };
        if most == 0 {
            return Poll::Ready(Ok(self.hold(buf)));
        }
        let now = buf.get(..most).unwrap_or(buf);
        let taken = ready!(Pin::new(&mut self.io).poll_write(cx, now))?;
        self.asked.follow(now.get(..taken).unwrap_or_default());
        Poll::Ready(Ok(taken))
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
