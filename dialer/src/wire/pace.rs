//! Marks: when to send one, and what its answer says. One mark serves four ends: what is answered is delivered, the time
//! it took is the round trip, a round trip that grows says that bulk waits in a queue somewhere and had better wait here,
//! and a peer that answers lives. Pure time-keeping: the link sends.
//!
//! Over a near path a flight shrinks as soon as its round trip grows. Over a far one round trips grow for other reasons,
//! too: the TCP below begins slowly, and holds what came behind a gap. There the flight follows the best rate that was
//! seen lately ([`Far`]): a TCP that always has something to send decides what the path bears.

mod far;

use std::{
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

use self::far::Far;

/// From one mark to the next while something is sent, however little: what windows are measured by.
const ACTIVE: Duration = Duration::from_millis(250);
/// From one mark to the next while nothing is sent; up to a fifth more or less, so that sessions do not keep step.
const IDLE: Duration = Duration::from_secs(10);
/// How long a peer may say nothing. Whatever message of its link comes is life, and not only the answer to a mark, which may wait
/// behind megabytes on a slow path. Where a path is dead one way only, it is the end that hears nothing which gives up.
pub(crate) const SILENCE: Duration = Duration::from_secs(20);
/// By how much the round trip may grow before bulk is held back. On a long path an eighth of it, if that is more: what is
/// sent at once makes a queue of its own there.
const QUEUE: Duration = Duration::from_millis(1);
/// The same while somebody types, or waits for small answers.
const QUEUE_INTERACTIVE: Duration = Duration::from_micros(50);
/// The flight that is allowed at first, and the least.
const START: u64 = 64 * 1024;
const LEAST: u64 = 16 * 1024;
/// Marks are at least this far apart while bulk flows, in bytes.
const STEP: u64 = 8 * 1024;
/// How many may be unanswered.
const OUT: usize = 32;
/// A least round trip that no other has come near to for so long is measured anew, with an empty queue.
const STALE: Duration = Duration::from_secs(10);
/// The same where a near path seems to have become a far one: until that is known, next to nothing is sent.
const MOVED: Duration = Duration::from_secs(2);
/// From this least round trip on a path is far.
const FAR: Duration = Duration::from_millis(5);

struct Mark {
    count: u64,
    at: Instant,
    /// What was in flight when it was sent.
    flight: u64,
}

pub(crate) struct Pace {
    out: VecDeque<Mark>,
    /// The count of the last mark that was sent.
    marked: u64,
    /// How much may be in flight before bulk waits, and the most that this may become.
    limit: u64,
    most: u64,
    least: Option<Duration>,
    far: Box<Far>,
    /// When a round trip was last about as short as the least.
    near: Instant,
    /// Bulk waits until all is answered and one mark has been alone on its way.
    draining: bool,
    /// When the flight was last made smaller: what was sent before that says nothing new.
    shrunk: Option<Instant>,
    rtt: Option<Duration>,
    /// The same, averaged over the last few.
    smooth: Option<Duration>,
    heard: Instant,
    /// When the last mark was sent.
    asked: Option<Instant>,
    due: Instant,
    timer: Pin<Box<Sleep>>,
    interactive: bool,
}

/// An answer to a mark that is not out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unasked;

/// What is to be sent now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    Mark,
    /// Nothing has been sent for long: the boxes between shall see something, too.
    IdleMark,
}

impl Pace {
    /// `sent` is what has been sent before this link; the flight never grows above `most`.
    pub(crate) fn new(sent: u64, most: u64) -> Self {
        let now = Instant::now();
        // A session that begins has something to say at once, and the first mark goes with it. One that goes on may not.
        let due = if sent == 0 { now + ACTIVE } else { now };
        Pace {
            out: VecDeque::new(),
            marked: sent,
            limit: START,
            most: most.max(LEAST),
            least: None,
            far: Box::new(Far::new()),
            near: now,
            draining: false,
            shrunk: None,
            rtt: None,
            smooth: None,
            heard: now,
            asked: None,
            due,
            timer: Box::pin(sleep_until(due)),
            interactive: false,
        }
    }

    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// How long it takes to tell the peer something and to see what it makes of it: over a far path with what it waits
    /// for on the way.
    pub(crate) fn distance(&self) -> Option<Duration> {
        if self.is_far() {
            self.smooth
        } else {
            self.least
        }
    }

    fn is_far(&self) -> bool {
        self.least.is_some_and(|least| least >= FAR)
    }

    /// The peer lives: it has said something, in a message of its link.
    pub(crate) fn heard(&mut self) {
        self.heard = Instant::now();
    }

    /// Whether small things are on their way that nothing shall hold up.
    pub(crate) fn interactive(&mut self, busy: bool) {
        self.interactive = busy;
    }

    pub(crate) fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// How many bytes of bulk may be sent on top of `flight`.
    pub(crate) fn bulk_room(&self, flight: u64) -> usize {
        if self.draining {
            return 0;
        }
        usize::try_from(self.limit.saturating_sub(flight)).unwrap_or(usize::MAX)
    }

    /// Asked behind each message.
    pub(crate) fn due(&mut self, sent: u64, flight: u64) -> Due {
        let unmarked = sent.saturating_sub(self.marked);
        if self.out.len() >= OUT {
            return Due::Nothing;
        }
        // A flight that is full and has no mark would wait for ever.
        let stuck = self.out.is_empty() && (flight >= self.limit || self.draining);
        let step = self.limit / if self.is_far() { far::MARKS } else { 4 };
        if stuck || (unmarked > 0 && unmarked >= step.max(STEP)) {
            return Due::Mark;
        }
        let now = Instant::now();
        if unmarked > 0 && self.asked.is_none_or(|asked| now >= asked + ACTIVE) {
            return Due::Mark;
        }
        if now < self.due {
            return Due::Nothing;
        }
        if self.out.back().is_some_and(|mark| mark.count == sent) {
            // One answer could not be told from the other, and the first says it all.
            self.due = now + IDLE;
            return Due::Nothing;
        }
        Due::IdleMark
    }

    pub(crate) fn sent(&mut self, count: u64, flight: u64) {
        let at = Instant::now();
        (self.marked, self.asked) = (count, Some(at));
        self.due = at + IDLE.mul_f64(0.8 + 0.4 * chance());
        self.out.push_back(Mark { count, at, flight });
    }

    /// The peer has received `count` bytes. It may answer a later mark in place of several.
    pub(crate) fn answered(&mut self, count: u64) -> Result<(), Unasked> {
        let at = self.out.iter().position(|mark| mark.count == count);
        let mark = at.and_then(|at| self.out.drain(..=at).next_back());
        let Mark { at, flight, .. } = mark.ok_or(Unasked)?;
        let now = Instant::now();
        let rtt = now - at;
        self.rtt = Some(rtt);
        self.smooth = Some(self.smooth.map_or(rtt, |smooth| (3 * smooth + rtt) / 4));
        if flight < LEAST {
            // It has met no queue of ours.
            if now - self.near > self.patience(rtt) {
                if !self.is_far() {
                    *self.far = Far::new();
                }
                self.least = Some(rtt);
            }
            self.draining = false;
        }
        self.adapt(now, at, flight, count);
        Ok(())
    }

    /// How long round trips like this one are put down to a queue.
    fn patience(&self, rtt: Duration) -> Duration {
        let moved = |least| least < FAR && rtt > least + FAR;
        if self.least.is_some_and(moved) {
            MOVED
        } else {
            STALE
        }
    }

    fn adapt(&mut self, now: Instant, sent: Instant, flight: u64, count: u64) {
        let rtt = now - sent;
        let least = self.least.map_or(rtt, |least| least.min(rtt));
        self.least = Some(least);
        let queue = if self.interactive {
            QUEUE_INTERACTIVE
        } else {
            QUEUE
        };
        let target = least + queue.max(least / 8);
        let full = flight >= self.limit / 2;
        let far = least >= FAR;
        if far {
            let flight = (flight, self.marked, full);
            self.far.answered(flight, count, rtt, now);
        }
        if rtt < target {
            self.near = now;
            // A flight that nobody filled says nothing about a larger one.
            if full {
                let step = match (far, self.shrunk) {
                    (true, _) => 16 * far::MARKS,
                    (false, None) => 4,
                    (false, Some(_)) => 16,
                };
                self.limit += self.limit / step;
            }
        } else if self.shrunk.is_none_or(|shrunk| sent >= shrunk) {
            // What is in flight, over the time it takes, is the path's rate: half-way to the flight that takes no longer
            // than it should.
            let part = (1.0 + target.as_secs_f64() / rtt.as_secs_f64()) / 2.0;
            self.limit = (self.limit as f64 * part) as u64;
            self.shrunk = Some(now);
        }
        if far {
            self.limit = self.limit.max(self.far.flight(least, target));
        }
        self.limit = self.limit.clamp(LEAST, self.most);
        if now - self.near > self.patience(rtt) && flight >= LEAST {
            // Either the path has become longer, or the queue is not ours: an empty one tells.
            self.draining = true;
        }
    }

    /// Moves on with the clock, and has the task woken for the next step. An error once the peer counts as dead; it is
    /// believed dead only by one who has just looked whether it has said anything.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, looked: bool) -> Result<(), Duration> {
        loop {
            let now = Instant::now();
            let dead = self.heard + SILENCE;
            if looked && now >= dead {
                return Err(SILENCE);
            }
            if self.due <= now && self.out.len() < OUT {
                // It is sent in this round, and asks again.
                return Ok(());
            }
            let next = if self.due <= now {
                dead
            } else {
                dead.min(self.due)
            };
            // What is heard moves the deadline with every message; the timer only when it fires.
            if self.timer.is_elapsed() || next < self.timer.deadline() {
                self.timer
                    .as_mut()
                    .reset(next.max(now + Duration::from_millis(1)));
            }
            match self.timer.as_mut().poll(cx) {
                Poll::Ready(()) => {}
                Poll::Pending => return Ok(()),
            }
        }
    }
}

/// Between 0 and 1; for nothing that anybody could gain by foreseeing it.
fn chance() -> f64 {
    let [byte, ..] = RandomState::new().hash_one(0).to_ne_bytes();
    f64::from(byte) / 255.0
}

#[cfg(test)]
mod tests;
