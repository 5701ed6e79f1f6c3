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

use fairlead_dialer::Ahead;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use crate::front::framing::{Followed, Framing};

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

/// What is below hyper once an agent's request has been upgraded, with the web's TLS or without: the connection itself,
/// given up by the kernel as soon as a link would be.
///
/// # Errors
/// It sent something before it was answered, or is no HTTP/1 connection of the front.
pub(crate) fn of_agent(
    upgraded: Upgraded,
) -> Result<Either<TlsStream<Ahead<Socket>>, Socket>, &'static str> {
    let (io, read) = match upgraded.downcast::<TokioIo<Followed<TlsStream<Ahead<Socket>>>>>() {
        Ok(parts) => (Either::Left(parts.io.into_inner().io), parts.read_buf),
        Err(other) => match other.downcast::<TokioIo<Followed<Socket>>>() {
            Ok(parts) => (Either::Right(parts.io.into_inner().io), parts.read_buf),
            Err(_) => return Err("it came by another way"),
        },
    };
    // RFC 6455, 4.1: the client waits for the answer.
    if !read.is_empty() {
        return Err("it did not wait for the answer");
    }
    match &io {
        Either::Left(tls) => fairlead_dialer::for_link(&tls.get_ref().0.get_ref().tcp),
        Either::Right(socket) => fairlead_dialer::for_link(&socket.tcp),
    }
    Ok(io)
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
