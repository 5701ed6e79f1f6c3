//! yamux (as specified by hashicorp/yamux), both ends, without I/O: bytes of the peer go in,
//! messages for the peer come out, and streams yield and take `Bytes`. It never blocks. Its memory
//! is bounded whatever the peer sends: a stopped reader holds its window and affects no other
//! stream.
//!
//! One task per session drives it ([`Mux::receive`], [`Mux::fill`]); streams may be used from any
//! thread.

mod decoder;
mod frame;
mod queue;
mod receive;
mod send;
mod shared;
mod side;
mod skipped;
mod state;
mod stream;
mod violation;
mod window;

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::{Bytes, BytesMut};

use self::{frame::Header, state::MuxState};
pub use self::{
    shared::Mux,
    side::Side,
    stream::Stream,
    violation::{Stop, Violation},
};
use crate::{
    close::CloseReason,
    error::{OpenError, SessionError},
    sync::lock,
};

/// Stream counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Open streams.
    pub open: usize,
    /// Streams opened since the session began.
    pub total: u64,
    /// Bytes received and not yet read, never more than the budget of the limits.
    pub unread: usize,
}

impl Mux {
    /// Opens a stream. The peer learns of it with the next message, before anything is written.
    ///
    /// # Errors
    ///
    /// [`OpenError::Full`] at the limit of either side.
    pub fn open(self: &Arc<Self>) -> Result<Stream, OpenError> {
        let id = self.with(MuxState::open)?;
        Ok(Stream::new(self.clone(), id))
    }

    /// Next stream opened by the peer; `None` once the session has ended. For one task only.
    pub fn poll_accept(self: &Arc<Self>, cx: &mut Context<'_>) -> Poll<Option<Stream>> {
        let accepted = self.with(|state| state.accept(cx));
        accepted.map(|id| id.map(|id| Stream::new(self.clone(), id)))
    }

    /// Asks the driver to end the session. The first reason counts.
    pub fn request_close(&self, reason: CloseReason) {
        self.with(|state| {
            state.close.get_or_insert(reason);
            state.wake_driver = true;
        });
    }

    /// Current stream counters.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let state = lock(&self.state);
        debug_assert_eq!(
            state.unread.bytes(),
            state
                .streams
                .values()
                .map(|entry| entry.inbox.len())
                .sum::<usize>()
        );
        Counts {
            open: state.live,
            total: state.total,
            unread: state.unread.bytes(),
        }
    }

    /// Limit of open streams: the lower one of the two sides.
    #[must_use]
    pub fn max_streams_open(&self) -> usize {
        lock(&self.state).opening_limit
    }

    /// Registers the driver's waker and the round trip time. Returns the reason if the session is
    /// to end.
    pub fn register_driver(
        &self,
        driver: &Waker,
        round_trip: Option<Duration>,
    ) -> Option<CloseReason> {
        let mut state = lock(&self.state);
        state.wake_driver = false;
        state.round_trip = round_trip.unwrap_or_default();
        match &mut state.driver {
            Some(waker) => waker.clone_from(driver),
            None => state.driver = Some(driver.clone()),
        }
        state.close
    }

    /// True if input may be read. False while too much output is queued; [`Mux::fill`] changes
    /// that.
    #[must_use]
    pub fn accepts_input(&self) -> bool {
        !lock(&self.state).is_control_full()
    }

    /// Processes input, cut at any position.
    ///
    /// # Errors
    ///
    /// The session must be ended.
    pub fn receive(&self, data: Bytes, wakes: &mut Vec<Waker>) -> Result<(), Stop> {
        lock(&self.state).receive(data, wakes)
    }

    /// True if a stream that is not bulk has output.
    #[must_use]
    pub(crate) fn has_small(&self) -> bool {
        !lock(&self.state).small.is_empty()
    }

    /// True if there is output, with or without bulk streams.
    #[must_use]
    pub fn has_output(&self, bulk: bool) -> bool {
        lock(&self.state).has_output(bulk)
    }

    /// Appends the next message to `out`: whole frames, at most 16,320 bytes, of bulk streams only
    /// if `bulk`. It may append nothing if the streams with output are gone.
    pub fn fill(&self, out: &mut BytesMut, bulk: bool, wakes: &mut Vec<Waker>) {
        lock(&self.state).fill(out, bulk, wakes);
    }

    /// Queues the reason for the peer. Nothing may be sent after it.
    pub fn go_away(&self, reason: CloseReason) {
        lock(&self.state).queue_control(Header::go_away(receive::code(reason)));
    }

    /// Ends the session: its streams break, but their written data may still be sent. The first
    /// error counts.
    pub fn end(&self, error: SessionError, wakes: &mut Vec<Waker>) {
        lock(&self.state).end(error, wakes);
    }
}

#[cfg(test)]
mod tests;
