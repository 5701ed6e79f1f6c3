//! The TCP socket of a connection of the front, which can end with a reset.
//!
//! Go's TLS takes a plain close between two records for a clean end, so a broken exec would look like a finished one.

use std::{
    io,
    net::SocketAddr,
    os::fd::AsFd,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
use fairlead_dialer::{
    InputGate, LinkIo, OUTER_TLS_BUFFER_BYTES, PollInput, ServerTls, set_link_options,
};
use fairlead_exchange::Upgraded;
use fairlead_seam::NamedService;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_util::either::Either;

use crate::{
    front::{
        connection::{ConnectionState, STRANGER_READ_BYTES},
        stalls::StallWatch,
        stranger_pools::StrangerShares,
    },
    metrics::Metrics,
};

/// Idle time before the first keep-alive probe. A vanished client is noticed after this time plus nine intervals.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// TLS of a client's connection.
pub(crate) type FrontTls = InputGate<ServerTls<ClientSocket>>;

/// The connection that a request came on.
#[derive(Clone)]
pub(crate) struct ClientConnection {
    /// Address of the client, of a request behind a trusted proxy its own.
    pub(crate) peer: SocketAddr,
    /// Strangers' shares of that address, unless the connection has the same.
    pub(crate) strangers: Option<StrangerShares>,
    /// The server name in the TLS handshake.
    pub(crate) sni: Option<Arc<str>>,
    /// Named service of the request, or of the connection.
    pub(crate) service: Option<Arc<NamedService>>,
    pub(crate) reset: ResetOnDrop,
    pub(crate) state: Arc<ConnectionState>,
}

/// Whether the socket, or the stream of an HTTP/2 connection, ends with a reset when it is dropped; clones share it.
#[derive(Clone, Default)]
pub(crate) struct ResetOnDrop(Arc<AtomicBool>);

impl ResetOnDrop {
    pub(crate) fn arm(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn disarm(&self) {
        self.0.store(false, Ordering::Release);
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

pub(crate) struct ClientSocket {
    tcp: TcpStream,
    /// Bytes that were read before, and come again.
    replayed: Bytes,
    reset: ResetOnDrop,
    /// `None` once it belongs to an agent.
    limits: Option<SocketLimits>,
}

/// Limits of a client's socket.
pub(crate) struct SocketLimits {
    pub(crate) state: Arc<ConnectionState>,
    pub(crate) watch: StallWatch,
    pub(crate) metrics: Arc<Metrics>,
    /// Bytes read, until that is of no interest.
    pub(crate) read: usize,
}

impl SocketLimits {
    /// Reads into `buf` as much as the connection may send now.
    fn poll_read(
        &mut self,
        tcp: &mut TcpStream,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.state.is_known() {
            return Pin::new(tcp).poll_read(cx, buf);
        }
        if self.state.pauses_reading(self.read, cx) {
            return Poll::Pending;
        }
        let mut bytes = [0; STRANGER_READ_BYTES];
        let mut block = ReadBuf::new(&mut bytes);
        let mut first = block.take(buf.remaining());
        ready!(Pin::new(tcp).poll_read(cx, &mut first))?;
        buf.put_slice(first.filled());
        let count = first.filled().len();
        if !self.state.count_head(self.read, count) {
            let error = "a stranger's first head exceeds the memory budget";
            return Poll::Ready(Err(io::Error::other(error)));
        }
        self.read = self.read.saturating_add(count);
        Poll::Ready(Ok(()))
    }
}

impl ClientSocket {
    pub(crate) fn new(tcp: TcpStream, reset: ResetOnDrop, limits: SocketLimits) -> Self {
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE_IDLE)
            .with_interval(KEEPALIVE_INTERVAL);
        // Fails only on a dead socket; its first read reports that.
        let _ = SockRef::from(&tcp).set_tcp_keepalive(&keepalive);
        ClientSocket {
            tcp,
            replayed: Bytes::new(),
            reset,
            limits: Some(limits),
        }
    }

    /// Registers the socket with the poll of the runtime that the caller runs on.
    ///
    /// # Errors
    /// There is no file descriptor left, or the poll is full.
    pub(crate) fn move_here(&mut self) -> io::Result<()> {
        // The stream cannot be taken apart here, because its owner ends it in `drop`. Both descriptors are one socket.
        let socket = self.tcp.as_fd().try_clone_to_owned()?;
        self.tcp = TcpStream::from_std(socket.into())?;
        Ok(())
    }

    /// Lets these bytes come first in the next reads.
    pub(crate) fn replay(&mut self, bytes: Bytes) {
        self.replayed = bytes;
    }
}

/// The connection of an agent after the upgrade of its request, with TLS or without.
///
/// The kernel gives it up as soon as a link would be.
///
/// # Errors
/// The agent sent data before the answer, or this is no HTTP/1 connection of the front.
pub(crate) fn agent_connection(upgraded: Upgraded) -> Result<LinkIo, &'static str> {
    let (mut io, read) = match upgraded.downcast::<FrontTls>() {
        Ok((tls, read)) => (Either::Left(tls), read),
        Err(other) => match other.downcast::<ClientSocket>() {
            Ok((socket, read)) => (Either::Right(socket), read),
            Err(_) => return Err("it came by another way"),
        },
    };
    // The client waits for the answer (RFC 6455, section 4.1).
    if !read.is_empty() {
        return Err("it did not wait for the answer");
    }
    let socket = match &mut io {
        Either::Left(tls) => {
            let tls = tls.get_mut();
            tls.set_output_limit(OUTER_TLS_BUFFER_BYTES);
            tls.get_mut()
        }
        Either::Right(socket) => socket,
    };
    // A link has limits of its own.
    socket.limits = None;
    set_link_options(&socket.tcp);
    Ok(LinkIo::over_tcp(io, |io| match io {
        Either::Left(tls) => &tls.get_ref().get_ref().tcp,
        Either::Right(socket) => &socket.tcp,
    }))
}

impl Drop for ClientSocket {
    fn drop(&mut self) {
        if self.reset.is_armed() {
            let _ = self.tcp.set_zero_linger();
        }
    }
}

impl PollInput for ClientSocket {
    fn poll_input(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.replayed.has_remaining() {
            return Poll::Ready(());
        }
        match &self.limits {
            // The read of a stranger's connection may have to pause.
            Some(limits) if !limits.state.is_known() => Poll::Ready(()),
            _ => self.tcp.poll_input(cx),
        }
    }
}

impl AsyncRead for ClientSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let socket = self.get_mut();
        if socket.replayed.has_remaining() {
            let taken = socket.replayed.len().min(buf.remaining());
            buf.put_slice(&socket.replayed.split_to(taken));
            return Poll::Ready(Ok(()));
        }
        match &mut socket.limits {
            Some(limits) => limits.poll_read(&mut socket.tcp, cx, buf),
            None => Pin::new(&mut socket.tcp).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write(cx, buf);
        match &mut self.limits {
            Some(limits) => limits.watch.check_write(&limits.metrics, cx, written),
            None => written,
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs);
        match &mut self.limits {
            Some(limits) => limits.watch.check_write(&limits.metrics, cx, written),
            None => written,
        }
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

#[cfg(test)]
mod tests;
