//! The TCP socket under a connection of the front. It can be told to end with a reset: Go's TLS takes a plain close
//! between two records for a clean end, so an exec that broke would look as if it had finished.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use crate::front::framing::Framing;

/// A user whose machine vanished during a quiet watch is noticed after about this time plus nine intervals.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// What is known of the connection a request came on.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) peer: SocketAddr,
    /// The name in the TLS handshake.
    pub(crate) sni: Option<Arc<str>>,
    pub(crate) cut: Cut,
    pub(crate) framing: Framing,
}

/// Whether the socket ends with a reset when it is dropped.
#[derive(Clone, Default)]
pub(crate) struct Cut(Arc<AtomicBool>);

impl Cut {
    pub(crate) fn arm(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn disarm(&self) {
        self.0.store(false, Ordering::Release);
    }
}

pub(crate) struct Socket {
    tcp: TcpStream,
    cut: Cut,
}

impl Socket {
    pub(crate) fn new(tcp: TcpStream, cut: Cut) -> Self {
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE)
            .with_interval(KEEPALIVE_INTERVAL);
        // Fails only on a socket that is dead already; its first read will say so.
        let _ = SockRef::from(&tcp).set_tcp_keepalive(&keepalive);
        Socket { tcp, cut }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.cut.0.load(Ordering::Acquire) {
            let _ = self.tcp.set_zero_linger();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
