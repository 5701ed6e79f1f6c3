//! When to send a mark, what its answer says, and when a peer counts as dead. It only keeps time; the link sends.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

/// From one mark to the next, unless the last is unanswered.
pub(crate) const EVERY: Duration = Duration::from_secs(5);
/// How long a peer may say nothing at all after a mark.
pub(crate) const SILENCE: Duration = Duration::from_secs(15);

enum Mark {
    /// Not before this.
    Due(Instant),
    /// Waits to be written.
    Waiting(Instant),
    /// Sent with this count.
    Sent(Instant, u64),
}

pub(crate) struct Marks {
    mark: Mark,
    heard: Instant,
    timer: Pin<Box<Sleep>>,
    rtt: Option<Duration>,
}

impl Marks {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Marks {
            // The first at once, for an early round trip time.
            mark: Mark::Due(now),
            heard: now,
            timer: Box::pin(sleep_until(now)),
            rtt: None,
        }
    }

    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// Whatever the peer said, it lives.
    pub(crate) fn heard(&mut self) {
        self.heard = Instant::now();
    }

    /// Whether a mark is to be written next.
    pub(crate) fn waiting(&self) -> bool {
        matches!(self.mark, Mark::Waiting(_))
    }

    /// The mark was written behind `count` bytes.
    pub(crate) fn sent(&mut self, count: u64) {
        if let Mark::Waiting(_) = self.mark {
            self.mark = Mark::Sent(Instant::now(), count);
        }
    }

    /// The peer answered a mark of `count` bytes; false if there was none.
    pub(crate) fn answered(&mut self, count: u64) -> bool {
        match self.mark {
            Mark::Sent(at, sent) if sent == count => {
                self.rtt = Some(at.elapsed());
                self.mark = Mark::Due(at + EVERY);
                true
            }
            _ => false,
        }
    }

    /// Moves on with the clock and has the task woken for the next step. An error once the peer counts as dead.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Result<(), Duration> {
        loop {
            let now = Instant::now();
            let next = match self.mark {
                Mark::Due(at) if now >= at => {
                    self.mark = Mark::Waiting(now);
                    continue;
                }
                Mark::Due(at) => at,
                Mark::Waiting(since) | Mark::Sent(since, _) => {
                    let dead = since.max(self.heard) + SILENCE;
                    if now >= dead {
                        return Err(SILENCE);
                    }
                    dead
                }
            };
            // What is heard moves the deadline with every message; the timer only when it fires.
            if self.timer.is_elapsed() || next < self.timer.deadline() {
                self.timer.as_mut().reset(next);
            }
            match self.timer.as_mut().poll(cx) {
                Poll::Ready(()) => {}
                Poll::Pending => return Ok(()),
            }
        }
    }
}
