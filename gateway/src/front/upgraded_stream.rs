//! An upgraded stream of an HTTP/2 connection (RFC 8441). As the socket of an HTTP/1 connection, it ends with a reset if it is
//! dropped unfinished, and breaks if the hub needs the memory of a client that takes nothing.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{
    front::{
        record::RequestRecord,
        socket::{ResetOnDrop, stalled},
        stalls::StallWatch,
    },
    hub::Hub,
    metrics::{Metrics, ResetCause},
};

/// An upgraded stream beside others.
pub(crate) struct UpgradedStream<IO> {
    io: IO,
    record: RequestRecord,
    reset: ResetOnDrop,
    watch: StallWatch,
    /// The hub needs the memory of the client.
    is_evicted: bool,
    metrics: Arc<Metrics>,
}

impl<IO> UpgradedStream<IO> {
    pub(crate) fn new(io: IO, hub: &Hub, record: &RequestRecord, reset: ResetOnDrop) -> Self {
        let watch = StallWatch::new(&hub.stalls, record.connection(), hub.stall_timeout);
        UpgradedStream {
            io,
            record: record.clone(),
            reset,
            watch: watch.unlimited(),
            is_evicted: false,
            metrics: Arc::clone(&hub.metrics),
        }
    }

    fn check<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.watch.progress();
            return written;
        }
        let cause = ready!(self.watch.poll_stalled(cx));
        self.metrics.stalled_reset(cause);
        self.is_evicted = true;
        // The reader reports the end: a splice waits for the other direction after an error of the writer.
        cx.waker().wake_by_ref();
        Poll::Ready(Err(stalled(cause)))
    }
}

impl<IO> Drop for UpgradedStream<IO> {
    fn drop(&mut self) {
        // Before the stream itself is dropped, which wakes its task.
        if self.reset.is_armed() {
            self.record.flow().break_off();
        }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for UpgradedStream<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_evicted {
            return Poll::Ready(Err(stalled(ResetCause::Memory)));
        }
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for UpgradedStream<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.check(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.check(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut_down = Pin::new(&mut self.io).poll_shutdown(cx);
        self.check(cx, shut_down)
    }
}
