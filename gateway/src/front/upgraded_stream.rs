//! An upgraded stream of an HTTP/2 connection (RFC 8441). As the socket of an HTTP/1 connection, it ends with a reset if it is
//! dropped unfinished, and breaks if the hub needs the memory of a client that takes nothing.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{
    front::{record::RequestRecord, socket::ResetOnDrop, stalls::StallWatch},
    hub::Hub,
    metrics::Metrics,
};

/// An upgraded stream beside others.
pub(crate) struct UpgradedStream<IO> {
    io: IO,
    record: RequestRecord,
    reset: ResetOnDrop,
    watch: StallWatch,
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
            metrics: Arc::clone(&hub.metrics),
        }
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
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for UpgradedStream<IO> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream = self.get_mut();
        let written = Pin::new(&mut stream.io).poll_write(cx, buf);
        stream.watch.check_write(&stream.metrics, cx, written)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        let flushed = Pin::new(&mut stream.io).poll_flush(cx);
        stream.watch.check_write(&stream.metrics, cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        let shut_down = Pin::new(&mut stream.io).poll_shutdown(cx);
        stream.watch.check_write(&stream.metrics, cx, shut_down)
    }
}
