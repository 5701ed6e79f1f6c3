//! A connection after its 101 as raw bytes: one of our streams, or another connection, such as the
//! user's from hyper.

use std::{
    any::Any,
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use fairlead_dialer::{Stream, sync::lock};
use http::Request;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::oneshot,
};

/// Extension of a served request: completes with the raw stream once the upgrading response was
/// sent.
#[derive(Clone)]
pub struct OnUpgrade {
    inner: Pending,
}

#[derive(Clone)]
enum Pending {
    Ours(Arc<Mutex<oneshot::Receiver<Upgraded>>>),
    Hyper(hyper::upgrade::OnUpgrade),
}

impl OnUpgrade {
    /// Takes the upgrade of a request, served by this crate or by hyper. It fails for a request without one.
    pub fn take<B>(request: &mut Request<B>) -> Self {
        match request.extensions_mut().remove::<OnUpgrade>() {
            Some(ours) => ours,
            None => OnUpgrade {
                inner: Pending::Hyper(hyper::upgrade::on(request)),
            },
        }
    }

    /// A connection that is raw already.
    #[must_use]
    pub fn ready(connection: Upgraded) -> Self {
        let (tx, upgrade) = Self::pair();
        // The receiver is in `upgrade`.
        let _ = tx.send(connection);
        upgrade
    }

    /// The sender completes the future.
    pub(crate) fn pair() -> (oneshot::Sender<Upgraded>, Self) {
        let (tx, rx) = oneshot::channel();
        let inner = Pending::Ours(Arc::new(Mutex::new(rx)));
        (tx, OnUpgrade { inner })
    }
}

impl Future for OnUpgrade {
    /// An error if the response was no upgrade, or the connection ended first.
    type Output = io::Result<Upgraded>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().inner {
            Pending::Ours(receiver) => {
                let upgraded = ready!(Pin::new(&mut *lock(receiver)).poll(cx));
                Poll::Ready(
                    upgraded.map_err(|_| io::Error::other("the connection was not upgraded")),
                )
            }
            Pending::Hyper(upgrade) => {
                let upgraded = ready!(Pin::new(upgrade).poll(cx)).map_err(io::Error::other)?;
                Poll::Ready(Ok(Upgraded::new(TokioIo::new(upgraded), Bytes::new())))
            }
        }
    }
}

/// Raw byte stream both ways, half-close included. Dropped before both directions have ended, it is
/// reset if the connection supports that.
pub struct Upgraded {
    /// Bytes received after the head.
    read: Bytes,
    io: RawConnection,
}

/// Other connections.
trait RawIo: AsyncRead + AsyncWrite + Send + Unpin + Any {}
impl<IO: AsyncRead + AsyncWrite + Send + Unpin + Any> RawIo for IO {}

enum RawConnection {
    Stream(Stream),
    Other(Box<dyn RawIo>),
}

impl Upgraded {
    /// Any connection. `read` holds bytes already received from it.
    pub fn new<IO>(io: IO, read: Bytes) -> Self
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Upgraded {
            read,
            io: RawConnection::Other(Box::new(io)),
        }
    }

    /// The connection itself, if it has this type, and the bytes already received from it.
    ///
    /// # Errors
    ///
    /// The unchanged connection of another type.
    pub fn downcast<IO: 'static>(self) -> Result<(IO, Bytes), Self> {
        let Upgraded { read, io } = self;
        let io = match io {
            RawConnection::Other(other) if (&*other as &dyn Any).is::<IO>() => other,
            io => return Err(Upgraded { read, io }),
        };
        match (io as Box<dyn Any>).downcast::<IO>() {
            Ok(io) => Ok((*io, read)),
            Err(_) => unreachable!("its type was checked"),
        }
    }

    /// Completes when the peer has reset the stream, even with unread data. Never completes for
    /// other connections than streams. Await it in the task that uses the stream.
    pub fn gone(&self) -> impl Future<Output = ()> + Send + use<> {
        let gone = match &self.io {
            RawConnection::Stream(stream) => Some(stream.gone()),
            RawConnection::Other(_) => None,
        };
        async move {
            match gone {
                Some(gone) => gone.await,
                None => std::future::pending().await,
            }
        }
    }

    pub(crate) fn of_stream(stream: Stream, read: Bytes) -> Self {
        Upgraded {
            read,
            io: RawConnection::Stream(stream),
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
            RawConnection::Stream(stream) => Pin::new(stream).poll_read(cx, buf),
            RawConnection::Other(other) => Pin::new(other).poll_read(cx, buf),
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
            RawConnection::Stream(stream) => Pin::new(stream).poll_write(cx, buf),
            RawConnection::Other(other) => Pin::new(other).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            RawConnection::Stream(stream) => Pin::new(stream).poll_flush(cx),
            RawConnection::Other(other) => Pin::new(other).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            RawConnection::Stream(stream) => Pin::new(stream).poll_shutdown(cx),
            RawConnection::Other(other) => Pin::new(other).poll_shutdown(cx),
        }
    }
}
