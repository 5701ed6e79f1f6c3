//! WebSocket pings on a client's idle upgraded connection (RFC 6455, section 5.5.2).
//!
//! Middle boxes drop idle connections, and an `exec` that waits for a key is idle. Pings go between the frames of the
//! server, which are followed for that and not changed. The client's pongs go on to the server, for which they mean
//! nothing (section 5.5.3).

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use fairlead_exchange::frames::{Frames, Protocol};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// Idle time before a ping. The least patient middle boxes in the field drop a connection after 20 s.
pub(crate) const PING_INTERVAL: Duration = Duration::from_secs(15);
/// A whole frame of a server: FIN and opcode 9, unmasked, no body.
const PING: &[u8] = &[0x89, 0x00];

/// A client's connection that uses WebSocket from its first byte on.
pub(crate) struct WebSocketPings<IO> {
    io: IO,
    frames: Frames,
    /// Rest of a ping, to be written before anything else.
    ping: &'static [u8],
    unflushed: bool,
    idle: Pin<Box<Sleep>>,
}

impl<IO> WebSocketPings<IO> {
    pub(crate) fn new(io: IO) -> Self {
        WebSocketPings {
            io,
            frames: Frames::new(Protocol::WebSocket),
            ping: &[],
            unflushed: false,
            idle: Box::pin(sleep(PING_INTERVAL)),
        }
    }

    fn reset_timer(&mut self) {
        self.idle.as_mut().reset(Instant::now() + PING_INTERVAL);
    }
}

impl<IO: AsyncWrite + Unpin> WebSocketPings<IO> {
    /// Writes the rest of a ping that has begun.
    fn poll_ping(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.ping.is_empty() {
            match ready!(Pin::new(&mut self.io).poll_write(cx, self.ping))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                taken => self.ping = self.ping.get(taken..).unwrap_or_default(),
            }
            self.unflushed = true;
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.io).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Sets the timer, and writes a ping when it is due and a frame may begin.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.idle.as_mut().poll(cx).is_ready() {
            self.reset_timer();
            if self.frames.may_begin() && self.ping.is_empty() {
                self.ping = PING;
            }
        }
        match self.poll_ping(cx) {
            Poll::Ready(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for WebSocketPings<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if read.is_ready() {
            self.reset_timer();
        }
        // The reader waits here, so the timer wakes it.
        self.poll_timer(cx)?;
        read
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for WebSocketPings<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_ping(cx))?;
        let taken = ready!(Pin::new(&mut self.io).poll_write(cx, buf))?;
        self.frames.follow(buf.get(..taken).unwrap_or_default());
        self.reset_timer();
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_ping(cx))?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_ping(cx))?;
        self.frames.close();
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
