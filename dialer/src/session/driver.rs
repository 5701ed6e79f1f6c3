//! The task of a session, which joins its streams to its wire.
//!
//! One round: read once, pass everything to the streams, yield once if several of them can answer,
//! then seal their output and write it at once. It never waits for the consumer of a stream or for a
//! caller of `accept`, and reading does not wait for writing.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};
use tracing::debug;

use super::state::SharedSession;
use crate::{
    close::CloseReason,
    error::SessionError,
    link::LinkEnd,
    mux::{Mux, Stop},
    wire::Wire,
};

/// Time to write the remaining data of a session that ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time after a small message during which bulk gives way to the next one.
const INTERACTIVE_TIME: Duration = Duration::from_millis(10);
/// Reads from a wire that cannot be written any more, to find the peer's reason for the end.
const MAX_LAST_READS: usize = 64;

pub(super) struct Driver {
    phase: DriverPhase,
    wire: Wire,
    mux: Arc<Mux>,
    shared: Arc<SharedSession>,
    /// The streams have run since the last input or output.
    gave_way: bool,
    wakes: Vec<Waker>,
    /// Time of the last output of a stream that is not bulk.
    small: Option<Instant>,
}

enum DriverPhase {
    Running,
    /// `unsaid`: the reason has not been sent yet; it follows the data of the streams.
    Closing {
        reason: CloseReason,
        unsaid: bool,
        deadline: Pin<Box<Sleep>>,
    },
}

/// Outcome of one read.
enum Input {
    None,
    /// `again`: another round follows at once, because there may be more to read, an acknowledgement is
    /// due, or several streams may answer.
    Some {
        again: bool,
    },
}

/// Reason for the end of a session, and the reason sent to the peer.
struct SessionEnd(SessionError, CloseReason);

impl From<LinkEnd> for SessionEnd {
    fn from(end: LinkEnd) -> Self {
        SessionEnd(end.into(), CloseReason::Protocol)
    }
}

impl From<Stop> for SessionEnd {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::GoAway(reason) => SessionEnd(SessionError::Peer(reason), reason),
            Stop::Violation(violation) => {
                let broken = SessionError::Violation {
                    rule: violation.rule(),
                    what: violation.to_string(),
                };
                SessionEnd(broken, CloseReason::Protocol)
            }
        }
    }
}

impl Driver {
    pub(super) fn new(wire: Wire, mux: Arc<Mux>, shared: Arc<SharedSession>) -> Self {
        Driver {
            phase: DriverPhase::Running,
            wire,
            mux,
            shared,
            gave_way: false,
            wakes: Vec::new(),
            small: None,
        }
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Result<(), SessionEnd> {
        if let Some(reason) = self.mux.register_driver(cx.waker(), self.wire.distance()) {
            return Err(SessionEnd(SessionError::Here(reason), reason));
        }
        // A task that sent a small message ran after all others of this turn, so the message goes
        // out now. Bulk yields once more, until there is a batch of it.
        let now = Instant::now();
        let seals = std::mem::take(&mut self.gave_way) || self.mux.has_small();
        if seals {
            self.seal(false, now);
            self.flush(cx, now)?;
        }
        let input = self.read(cx, now)?;
        if self.may_seal() || matches!(input, Input::Some { again: true }) {
            self.gave_way = true;
            cx.waker().wake_by_ref();
        } else if !seals || !matches!(input, Input::None) {
            // For timers, and for a socket that was full.
            self.flush(cx, now)?;
        }
        Ok(())
    }

    /// One read, passed to the streams.
    fn read(&mut self, cx: &mut Context<'_>, now: Instant) -> Result<Input, SessionEnd> {
        // Pending output must leave first; then the streams take input again.
        if !self.mux.accepts_input() || self.wire.poll_fill(cx, now)?.is_pending() {
            return Ok(Input::None);
        }
        let mut outcome = Ok(());
        while let Some(piece) = self.wire.next()? {
            if let Err(stop) = self.mux.receive(piece, &mut self.wakes) {
                outcome = Err(stop.into());
                break;
            }
        }
        // A single stream wakes this task with its answer. The answers of several are sent together.
        let is_batch = self.wakes.len() > 1;
        self.wake();
        outcome.map(|()| Input::Some {
            again: is_batch || self.wire.has_more() || self.wire.owes_answer(),
        })
    }

    fn may_seal(&self) -> bool {
        self.wire.room() > 0 && self.mux.has_output(self.wire.bulk_room() > 0)
    }

    /// Seals as many messages as there are, or as the wire has capacity for.
    fn seal(&mut self, all: bool, now: Instant) {
        if self.mux.has_small() {
            self.small = Some(now);
        }
        let busy = self
            .small
            .is_some_and(|small| now - small < INTERACTIVE_TIME);
        self.wire.interactive(busy);
        loop {
            let bulk = all || self.wire.bulk_room() > 0;
            if self.wire.room() == 0 || !self.mux.has_output(bulk) {
                break;
            }
            let (mux, wakes) = (&self.mux, &mut self.wakes);
            self.wire.seal(now, &mut |out| mux.fill(out, bulk, wakes));
        }
        self.wake();
    }

    fn flush(&mut self, cx: &mut Context<'_>, now: Instant) -> Result<(), SessionEnd> {
        let flushed = self.wire.poll_flush(cx, now);
        self.shared.count(self.wire.counts(), self.wire.rtt());
        if let Poll::Ready(Err(end)) = flushed {
            // The peer's own reason is more precise than the write error.
            for _ in 0..MAX_LAST_READS {
                if matches!(self.read(cx, now)?, Input::None) {
                    break;
                }
            }
            return Err(end.into());
        }
        Ok(())
    }

    fn wake(&mut self) {
        self.wakes.drain(..).for_each(Waker::wake);
    }

    /// Breaks all streams and tells the peer the reason, if possible.
    fn end(&mut self, SessionEnd(error, reason): SessionEnd) {
        debug!(%error, "session ended");
        self.mux.end(error.clone(), &mut self.wakes);
        self.shared.end(error);
        self.wake();
        self.phase = DriverPhase::Closing {
            reason,
            unsaid: true,
            deadline: Box::pin(sleep(CLOSE_TIMEOUT)),
        };
    }

    /// Sends the remaining data of the streams, the reason, and the end of the wire.
    fn last_words(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        loop {
            self.seal(true, now);
            let more = self.mux.has_output(true);
            let DriverPhase::Closing {
                reason,
                unsaid,
                deadline,
            } = &mut self.phase
            else {
                return Poll::Pending;
            };
            if deadline.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if !more && std::mem::take(unsaid) {
                self.mux.go_away(*reason);
                continue;
            }
            if !more {
                return self.wire.poll_close(cx, *reason);
            }
            // The wire may need the peer's acknowledgements to continue. All other input is
            // dropped.
            if let Poll::Ready(Ok(())) = self.wire.poll_fill(cx, now) {
                while let Ok(Some(_)) = self.wire.next() {}
                cx.waker().wake_by_ref();
            }
            match self.wire.poll_flush(cx, now) {
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(())) if self.wire.room() > 0 => {}
                _ => return Poll::Pending,
            }
        }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let driver = self.get_mut();
        if let DriverPhase::Running = driver.phase {
            match driver.run(cx) {
                Ok(()) => return Poll::Pending,
                Err(end) => driver.end(end),
            }
        }
        driver.last_words(cx)
    }
}

/// A task that is aborted with its runtime ends its session too.
impl Drop for Driver {
    fn drop(&mut self) {
        let gone = SessionError::Broken("the session's task was stopped".to_owned());
        self.mux.end(gone.clone(), &mut self.wakes);
        self.shared.end(gone);
        self.wakes.drain(..).for_each(Waker::wake);
    }
}
