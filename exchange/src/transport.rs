//! Transport of an exchange: a stream of a session, or a connection to a server.

use std::{
    future::poll_fn,
    io,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use fairlead_dialer::Stream;
use futures_util::FutureExt;
use tokio::task::coop::unconstrained;

use crate::{outgoing::Outgoing, upgrade::Upgraded};

/// Bytes both ways. Dropped before both directions have ended, it is reset if possible.
pub trait Transport: Send + Unpin + 'static {
    /// Next bytes; `None` at the peer's clean end.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>>;

    /// Writes and flushes all of `out`.
    fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut Outgoing) -> Poll<io::Result<()>>;

    /// Ends this direction after all written data.
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ready when the peer has reset it, even with unread data. Never ready if that is unknown.
    fn poll_gone(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// True if it is open both ways with nothing to read: fit for the next request.
    fn is_idle(&mut self) -> bool {
        at_once(poll_fn(|cx| Poll::Ready(self.poll_read(cx).is_pending())))
    }

    /// The raw stream after HTTP has ended. `read` holds the bytes after the head.
    fn into_upgraded(self, read: Bytes) -> Upgraded;
}

/// Polls once, outside the cooperative budget: with an exhausted budget the result would always be
/// pending.
pub(crate) fn at_once(pending: impl Future<Output = bool> + Unpin) -> bool {
    unconstrained(pending).now_or_never() == Some(true)
}

impl Transport for Stream {
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        self.poll_read_bytes(cx)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut Outgoing) -> Poll<io::Result<()>> {
        while let Some(polled) = out.with_front(|front| self.poll_write_bytes(cx, front)) {
            ready!(polled)?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Stream::poll_finish(self, cx)
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Stream::poll_gone(self, cx)
    }

    fn is_idle(&mut self) -> bool {
        Stream::is_idle(self)
    }

    fn into_upgraded(self, read: Bytes) -> Upgraded {
        Upgraded::of_stream(self, read)
    }
}
