//! One stream of a session. It yields and takes `Bytes`; `AsyncRead` and `AsyncWrite` are adapters
//! for upgrades and for hyper.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::shared::Mux;

/// One stream. Dropped before both directions were finished, it is reset: the peer reads an error,
/// never an end.
pub struct Stream {
    mux: Arc<Mux>,
    id: u32,
}

impl Stream {
    pub(super) fn new(mux: Arc<Mux>, id: u32) -> Self {
        Stream { mux, id }
    }

    #[cfg(test)]
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Next bytes, as they arrived; `None` at the peer's clean end.
    pub fn poll_read_bytes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        let read = self
            .mux
            .with(|state| state.read(self.id, cx, |inbox| inbox.pop()));
        read.map_ok(Option::flatten)
    }

    /// Writes `data` as far as there is capacity. Bytes left in `data` when this is pending were
    /// not taken.
    pub fn poll_write_bytes(
        &mut self,
        cx: &mut Context<'_>,
        data: &mut Bytes,
    ) -> Poll<io::Result<()>> {
        while data.has_remaining() {
            ready!(self.mux.with(|state| {
                state.write(self.id, cx, |outbox, room| {
                    outbox.push(data.split_to(room.min(data.len())));
                })
            }))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Ready when the peer has reset the stream, even with unread data, or the session has ended.
    pub fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.mux.with(|state| state.gone(self.id, cx))
    }

    /// As [`Stream::poll_gone`], as a future that outlives the borrow. Await it in the task that uses the
    /// stream.
    pub fn gone(&self) -> impl Future<Output = ()> + Send + use<> {
        let (mux, id) = (self.mux.clone(), self.id);
        poll_fn(move |cx| mux.with(|state| state.gone(id, cx)))
    }

    /// Ends this direction after all written data. The other one continues.
    pub fn poll_finish(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.mux.with(|state| state.finish(self.id)))
    }

    /// True without unread or unsent data, end, or reset: fit for another exchange.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.mux.with(|state| state.is_idle(self.id))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let gone = self.mux.with(|state| state.dropped(self.id));
        // Outside the lock: the entry may own a waker, and with it another stream.
        drop(gone);
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let read = self
            .mux
            .with(|state| state.read(self.id, cx, |inbox| inbox.read_into(buf)));
        // An empty read is the end.
        read.map_ok(|_| ())
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.mux.with(|state| {
            state.write(self.id, cx, |outbox, mut room| {
                for buf in bufs {
                    let part = buf.get(..room).unwrap_or(buf);
                    outbox.push_slice(part);
                    room -= part.len();
                }
            })
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing is buffered here: written data is with the session's task.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_finish(cx)
    }
}
