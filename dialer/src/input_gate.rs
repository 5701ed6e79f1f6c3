//! Reads a TLS layer only if its connection has input. A read that finds nothing costs as much as decrypting a small
//! record, and tasks read at every turn, because only a read reports the end of the connection.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// A connection that cheaply reports that it has nothing to read.
pub trait PollInput {
    /// Pending only if a read would be pending, too. It then wakes the task as that read would.
    fn poll_input(&self, cx: &mut Context<'_>) -> Poll<()>;
}

impl PollInput for TcpStream {
    fn poll_input(&self, cx: &mut Context<'_>) -> Poll<()> {
        // An error is left to the read.
        self.poll_read_ready(cx).map(drop)
    }
}

/// Connection that is read only if it may have input.
#[derive(Debug)]
pub struct InputGate<IO> {
    io: IO,
}

impl<IO> InputGate<IO> {
    /// Wraps a connection.
    pub fn new(io: IO) -> Self {
        InputGate { io }
    }

    /// The wrapped connection.
    #[must_use]
    pub fn get_ref(&self) -> &IO {
        &self.io
    }

    /// The wrapped connection.
    pub fn get_mut(&mut self) -> &mut IO {
        &mut self.io
    }
}

impl<IO: AsyncRead + PollInput + Unpin> AsyncRead for InputGate<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let gate = self.get_mut();
        ready!(gate.io.poll_input(cx));
        Pin::new(&mut gate.io).poll_read(cx, buf)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for InputGate<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
