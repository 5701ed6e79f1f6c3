//! Connection to a hub's front: TCP, or a tunnel inside the TLS of a proxy.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

use crate::input_gate::PollInput;

/// Connection to a hub's front.
pub(super) enum PathStream {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl PathStream {
    /// The TCP connection to the hub, or to the proxy.
    pub(super) fn tcp(&self) -> &TcpStream {
        match self {
            PathStream::Tcp(tcp) => tcp,
            PathStream::Tls(tls) => tls.get_ref().0,
        }
    }
}

macro_rules! delegate {
    ($stream:expr, $io:ident => $call:expr) => {
        match $stream {
            PathStream::Tcp($io) => $call,
            PathStream::Tls($io) => $call,
        }
    };
}

impl PollInput for PathStream {
    fn poll_input(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            PathStream::Tcp(tcp) => tcp.poll_input(cx),
            // Its TLS may have decrypted data already.
            PathStream::Tls(_) => Poll::Ready(()),
        }
    }
}

impl AsyncRead for PathStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        delegate!(self.get_mut(), io => Pin::new(io).poll_read(cx, buf))
    }
}

impl AsyncWrite for PathStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        delegate!(self.get_mut(), io => Pin::new(io).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self.get_mut(), io => Pin::new(io).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        delegate!(self, io => io.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self.get_mut(), io => Pin::new(io).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self.get_mut(), io => Pin::new(io).poll_shutdown(cx))
    }
}
