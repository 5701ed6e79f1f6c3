//! One stream of a session. It yields and takes `Bytes`; `AsyncRead` and `AsyncWrite` are adapters on top, for upgrades
//! and for hyper.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use futures_util::Stream as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt};

use super::state::Shared;

/// One stream. Dropped before both directions were finished, it is reset: the peer reads an error, never an end.
pub struct Stream {
    yamux: Compat<yamux::Stream>,
    id: u32,
    shared: Arc<Shared>,
    finished: bool,
}

impl Stream {
    pub(super) fn new(yamux: yamux::Stream, shared: Arc<Shared>) -> Self {
        Stream {
            id: yamux.id().val(),
            yamux: yamux.compat(),
            shared,
            finished: false,
        }
    }

    /// The next bytes, as they came; `None` at the peer's end. Any end but that is an error.
    pub fn poll_read_bytes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            match ready!(Pin::new(self.yamux.get_mut()).poll_next(cx)) {
                // The empty body of a frame that only opened or ended the stream.
                Some(Ok(packet)) if packet.as_ref().is_empty() => {}
                Some(Ok(packet)) => return Poll::Ready(Ok(Some(Bytes::from_owner(packet)))),
                Some(Err(_)) => return Poll::Ready(Err(self.broken())),
                None => return Poll::Ready(self.end().map(|()| None)),
            }
        }
    }

    /// Takes all of `data`, or what the window allows: what is left in `data` when this is pending was not taken.
    pub fn poll_write_bytes(
        &mut self,
        cx: &mut Context<'_>,
        data: &mut Bytes,
    ) -> Poll<io::Result<()>> {
        while data.has_remaining() {
            let taken = ready!(Pin::new(&mut *self).poll_write(cx, data))?;
            data.advance(taken);
        }
        Poll::Ready(Ok(()))
    }

    /// Ends this direction, behind everything written. The other one goes on.
    pub fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.finished {
            return Poll::Ready(Ok(()));
        }
        if self.yamux.get_ref().is_closed() {
            return Poll::Ready(Err(self.broken()));
        }
        // Before yamux is told: its driver must not meet the FIN of a stream that it takes for open.
        self.shared.finishing(self.id);
        match ready!(Pin::new(&mut self.yamux).poll_shutdown(cx)) {
            Ok(()) => {
                self.finished = true;
                Poll::Ready(Ok(()))
            }
            Err(_) => Poll::Ready(Err(self.broken())),
        }
    }

    fn end(&self) -> io::Result<()> {
        if self.shared.ended_cleanly(self.id) {
            Ok(())
        } else {
            Err(self.broken())
        }
    }

    fn broken(&self) -> io::Error {
        self.shared.broken().map_or_else(
            || io::Error::new(io::ErrorKind::ConnectionReset, "the peer reset the stream"),
            io::Error::from,
        )
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.dropped(self.id, self.finished);
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        let before = buf.filled().len();
        match ready!(Pin::new(&mut stream.yamux).poll_read(cx, buf)) {
            Err(_) => Poll::Ready(Err(stream.broken())),
            Ok(()) if buf.filled().len() == before && buf.remaining() > 0 => {
                Poll::Ready(stream.end())
            }
            Ok(()) => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream = self.get_mut();
        let outcome = ready!(Pin::new(&mut stream.yamux).poll_write(cx, buf));
        Poll::Ready(outcome.map_err(|_| stream.broken()))
    }

    /// Nothing waits here: what is written is with the session's task.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_finish(cx)
    }
}
