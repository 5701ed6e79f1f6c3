//! A connection after its 101, as raw bytes both ways: a stream of ours without anything of hyper around it, or the
//! user's connection as hyper gives it.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::session::Stream;

/// In a served request's extensions: the raw stream, once an answer that upgrades was sent.
#[derive(Clone)]
pub struct OnUpgrade {
    inner: hyper::upgrade::OnUpgrade,
}

impl OnUpgrade {
    /// For an upgrade on a connection that is not a stream of ours (the user's side): wraps hyper's.
    #[must_use]
    pub fn from_hyper(inner: hyper::upgrade::OnUpgrade) -> Self {
        OnUpgrade { inner }
    }
}

impl Future for OnUpgrade {
    /// An error if the answer was none that upgrades, or the connection ended first.
    type Output = io::Result<Upgraded>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let upgraded = ready!(Pin::new(&mut self.get_mut().inner).poll(cx));
        Poll::Ready(upgraded.map(Upgraded::from_hyper).map_err(io::Error::other))
    }
}

/// A byte stream both ways, half-close included. Dropped before both directions have ended, it is reset where the
/// connection below can be.
pub struct Upgraded {
    /// What came behind the head.
    read: Bytes,
    io: Inner,
}

enum Inner {
    Stream(Stream),
    Other(Box<TokioIo<hyper::upgrade::Upgraded>>),
}

impl Upgraded {
    pub(super) fn from_hyper(upgraded: hyper::upgrade::Upgraded) -> Self {
        match upgraded.downcast::<TokioIo<Stream>>() {
            Ok(parts) => Upgraded {
                read: parts.read_buf,
                io: Inner::Stream(parts.io.into_inner()),
            },
            Err(other) => Upgraded {
                read: Bytes::new(),
                io: Inner::Other(Box::new(TokioIo::new(other))),
            },
        }
    }
}

impl AsyncRead for Upgraded {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let upgraded = self.get_mut();
        if upgraded.read.has_remaining() {
            let taken = upgraded.read.len().min(buf.remaining());
            buf.put_slice(&upgraded.read.split_to(taken));
            return Poll::Ready(Ok(()));
        }
        match &mut upgraded.io {
            Inner::Stream(stream) => Pin::new(stream).poll_read(cx, buf),
            Inner::Other(other) => Pin::new(other).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().io {
            Inner::Stream(stream) => Pin::new(stream).poll_write(cx, buf),
            Inner::Other(other) => Pin::new(other).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Inner::Stream(stream) => Pin::new(stream).poll_flush(cx),
            Inner::Other(other) => Pin::new(other).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Inner::Stream(stream) => Pin::new(stream).poll_shutdown(cx),
            Inner::Other(other) => Pin::new(other).poll_shutdown(cx),
        }
    }
}
