//! yamux (the specification that comes with hashicorp/yamux), both ends, without any I/O: bytes of the peer go in, messages
//! for the peer come out, and between them are streams that yield and take `Bytes`. It never waits, and it holds no more
//! than its limits say, whatever the peer sends: a reader that stops holds its window, and nobody else.
//!
//! One task per session drives it ([`Mux::receive`], [`Mux::fill`]); streams may be used from any thread.

mod frame;
mod queue;
mod receive;
mod send;
mod skipped;
mod state;
mod stream;
mod violation;
mod window;

use std::{
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::{Bytes, BytesMut};

pub(crate) use self::window::INITIAL;
use self::{frame::Header, state::State};
pub use self::{stream::Stream, violation::Violation};
use crate::{
    lock,
    session::{CloseReason, Limits, OpenError, SessionError},
};

/// Which end this is: the agent's stream ids are odd, the hub's even.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Agent,
    Hub,
}

/// Why nothing more may come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The peer broke the protocol.
    Violation(Violation),
    /// The peer says that the session is over.
    GoAway(CloseReason),
}

impl From<Violation> for Stop {
    fn from(violation: Violation) -> Self {
        Stop::Violation(violation)
    }
}

/// A session's streams at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Streams that are open.
    pub open: usize,
    /// All that ever were.
    pub total: u64,
    /// Bytes of the peer that nobody has read yet. Never more than the limits' budget.
    pub unread: usize,
}

/// One session's streams. Whom a call of the driver's made ready is put into its `wakes`, to be woken outside of the
/// lock.
pub struct Mux {
    state: Mutex<State>,
}

impl Mux {
    /// `peer_streams` is how many streams the peer wants at most.
    #[must_use]
    pub fn new(side: Side, limits: &Limits, peer_streams: usize) -> Arc<Self> {
        Arc::new(Mux {
            state: Mutex::new(State::new(side, limits, peer_streams)),
        })
    }

    /// For everybody but the driver, who is woken if there is something to do for it.
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = lock(&self.state);
        let outcome = act(&mut state);
        let driver = match std::mem::take(&mut state.kick) {
            // Once: until it looks again, it is on its way.
            true => state.driver.take(),
            false => None,
        };
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        outcome
    }

    /// Opens a stream. The peer learns of it with the next message, before anything is written.
    ///
    /// # Errors
    /// [`OpenError::Full`] at the limit of either side.
    pub fn open(self: &Arc<Self>) -> Result<Stream, OpenError> {
        let id = self.with(State::open)?;
        Ok(Stream::new(self.clone(), id))
    }

    /// The next stream that the peer opened; `None` once the session has ended. One task calls this.
    pub fn poll_accept(self: &Arc<Self>, cx: &mut Context<'_>) -> Poll<Option<Stream>> {
        let accepted = self.with(|state| state.accept(cx));
        accepted.map(|id| id.map(|id| Stream::new(self.clone(), id)))
    }

    /// Asks the driver to end the session. The first reason counts.
    pub fn ask_close(&self, reason: CloseReason) {
        self.with(|state| {
            state.close.get_or_insert(reason);
            state.kick = true;
        });
    }

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

    /// How many streams may be open: the lower of the two sides' limits.
    #[must_use]
    pub fn most_streams(&self) -> usize {
        lock(&self.state).opening_limit
    }

    /// The driver says whom to wake, once, when there is something to do, and how far away the peer is; what it was asked
    /// for, if it is to end.
    pub fn attend(&self, driver: &Waker, round_trip: Option<Duration>) -> Option<CloseReason> {
        let mut state = lock(&self.state);
        state.kick = false;
        state.round_trip = round_trip.unwrap_or_default();
        match &mut state.driver {
            Some(waker) => waker.clone_from(driver),
            None => state.driver = Some(driver.clone()),
        }
        state.close
    }

    /// Whether the peer's bytes may come in. Not while too much waits to be said to it: [`Mux::fill`] changes that.
    #[must_use]
    pub fn takes_input(&self) -> bool {
        !lock(&self.state).congested()
    }

    /// Takes in what the peer sent, cut anywhere.
    ///
    /// # Errors
    /// The session must be ended.
    pub fn receive(&self, data: Bytes, wakes: &mut Vec<Waker>) -> Result<(), Stop> {
        lock(&self.state).receive(data, wakes)
    }

    /// Whether a stream that is not bulk has something to say.
    #[must_use]
    pub(crate) fn has_small(&self) -> bool {
        !lock(&self.state).small.is_empty()
    }

    /// Whether something waits to be sent, with or without what bulk streams have.
    #[must_use]
    pub fn has_output(&self, bulk: bool) -> bool {
        lock(&self.state).has_output(bulk)
    }

    /// Appends the next message to `out`: whole frames, 16,320 bytes at most, of bulk streams only if `bulk`. It may add
    /// nothing, where those who had something to say are gone.
    pub fn fill(&self, out: &mut BytesMut, bulk: bool, wakes: &mut Vec<Waker>) {
        lock(&self.state).fill(out, bulk, wakes);
    }

    /// The peer shall know why the session ends. Nothing may be sent behind this.
    pub fn go_away(&self, reason: CloseReason) {
        lock(&self.state).tell(Header::go_away(receive::code(reason)));
    }

    /// The session is over: its streams are broken, but what they had written may still be sent. The first error counts.
    pub fn end(&self, error: SessionError, wakes: &mut Vec<Waker>) {
        lock(&self.state).end(error, wakes);
    }
}

#[cfg(test)]
mod tests;
