//! What goes to the peer, message by message: control frames, then streams with little to say, then bulk.
//!
//! A stream is bulk once it has sent [`BULK`] bytes more than a conversation would: what the peer says on it counts
//! against them [`ANSWER`] fold, and so does time while it has nothing to send. That it runs dry is no sign, for the
//! socket may take all that it has; nor is a word of the peer, for bulk may have acknowledgements of its own. Small
//! streams take turns frame by frame; a bulk stream keeps its turn for [`TURN`] bytes, and one of them has a turn at
//! least every [`PATIENCE`] messages.

use std::{
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::{BufMut, BytesMut};
use tokio::time::Instant;

use super::{
    frame::{FIN, HEADER, Header, Kind},
    state::{Entry, OUTBOX, Ours, State, keep},
};

/// The plaintext of one message, in bytes. With what the layers below add it is one TLS record of 16 KiB.
pub(super) const MESSAGE: usize = 16_320;
/// The most that one frame carries: it fills a message.
pub(super) const FULL_BODY: usize = MESSAGE - HEADER;
const BULK: usize = 64 * 1024;
/// How much a byte of the peer's excuses.
const ANSWER: usize = 64;
/// In how much idle time [`BULK`] bytes are forgotten: what sends less than 256 KiB/s is not bulk.
const FORGET: Duration = Duration::from_millis(250);
const TURN: usize = 64 * 1024;
const PATIENCE: u32 = 8;
/// A message with less room than this takes no further frame: half of a frame costs as much as a whole one.
const LEAST: usize = 1024;
/// The control queue's usual capacity.
const USUAL: usize = 64;

impl Entry {
    /// It sent something.
    fn ran(&mut self, bytes: usize) {
        self.run = (self.run + bytes).min(2 * BULK);
        // Most streams never need the clock.
        if self.outbox.is_empty() && self.run >= BULK / 2 {
            self.dry = Some(Instant::now());
        }
    }

    /// It has something to send again.
    fn runs_again(&mut self) {
        if let Some(dry) = self.dry.take() {
            let idle = dry.elapsed().min(2 * FORGET).as_micros();
            let forgotten = idle * BULK as u128 / FORGET.as_micros();
            let forgotten = usize::try_from(forgotten).unwrap_or(usize::MAX);
            self.run = self.run.saturating_sub(forgotten);
        }
    }

    /// The peer said something on it.
    pub(super) fn answered(&mut self, bytes: usize) {
        self.run = self.run.saturating_sub(bytes.saturating_mul(ANSWER));
    }
}

impl State {
    /// Ready when nothing that is said on a stream is for anybody: the peer has reset it, or the session is over. Asked by whoever
    /// may write, since a reader hears of it behind all that has come.
    pub(super) fn gone(&mut self, id: u32, cx: &Context<'_>) -> Poll<()> {
        match self.streams.get_mut(&id) {
            Some(entry) if !entry.reset && self.ended.is_none() => {
                keep(&mut entry.writer, cx);
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Puts a stream that has something to send where it belongs.
    pub(super) fn schedule(&mut self, id: u32) {
        let Some(entry) = self.streams.get_mut(&id) else {
            return;
        };
        let ready = entry.credit > 0 && !entry.outbox.is_empty()
            || entry.ours == Ours::Finishing && entry.outbox.is_empty();
        if entry.scheduled || !ready {
            return;
        }
        entry.scheduled = true;
        entry.runs_again();
        if entry.run >= BULK {
            self.bulk.push_back(id);
        } else {
            self.small.push_back(id);
        }
        self.kick = true;
    }

    /// Whether [`State::fill`] would add anything.
    pub(super) fn has_output(&self, bulk: bool) -> bool {
        !(self.control.is_empty() && self.small.is_empty() && (self.bulk.is_empty() || !bulk))
    }

    /// Appends one message of whole frames to `out`: at most [`MESSAGE`] bytes.
    pub(super) fn fill(&mut self, out: &mut BytesMut, bulk: bool, wakes: &mut Vec<Waker>) {
        let end = out.len() + MESSAGE;
        if !self.fill_control(out, end) {
            return;
        }
        let mut took_bulk = false;
        if bulk && self.since_bulk >= PATIENCE {
            took_bulk = self.fill_from_bulk(out, end, wakes);
        }
        while end - out.len() >= LEAST
            && let Some(id) = self.small.pop_front()
        {
            self.fill_from(id, out, end, wakes);
        }
        while bulk && end - out.len() >= LEAST && !self.bulk.is_empty() {
            took_bulk |= self.fill_from_bulk(out, end, wakes);
        }
        self.since_bulk = match took_bulk || self.bulk.is_empty() {
            true => 0,
            false => self.since_bulk.saturating_add(1),
        };
    }

    /// Control frames; false if there is no room behind them.
    fn fill_control(&mut self, out: &mut BytesMut, end: usize) -> bool {
        while end - out.len() >= HEADER
            && let Some(header) = self.control.pop_front()
        {
            if header.kind == Kind::Ping {
                self.pongs = self.pongs.saturating_sub(1);
            }
            out.put_slice(&header.encode());
        }
        if self.control.is_empty() && self.control.capacity() > 4 * USUAL {
            self.control.shrink_to(USUAL);
        }
        self.control.is_empty()
    }

    fn fill_from_bulk(&mut self, out: &mut BytesMut, end: usize, wakes: &mut Vec<Waker>) -> bool {
        self.bulk
            .pop_front()
            .is_some_and(|id| self.fill_from(id, out, end, wakes))
    }

    /// One frame of a stream; false if it had nothing to send after all.
    fn fill_from(
        &mut self,
        id: u32,
        out: &mut BytesMut,
        end: usize,
        wakes: &mut Vec<Waker>,
    ) -> bool {
        let room = (end - out.len()).saturating_sub(HEADER);
        let Some(entry) = self.streams.get_mut(&id) else {
            // Dropped or reset since.
            return false;
        };
        entry.scheduled = false;
        let length = entry.outbox.len().min(entry.credit as usize).min(room);
        let fin = entry.ours == Ours::Finishing && entry.outbox.len() == length;
        if length == 0 && !fin {
            return false;
        }
        // Not above the credit, which is 32 bits wide.
        let told = u32::try_from(length).unwrap_or(entry.credit);
        let flags = if fin { FIN } else { 0 };
        out.put_slice(&Header::data(id, flags, told).encode());
        entry.outbox.drain_into(out, length);
        entry.credit -= told;
        entry.ran(length);
        entry.turn += length;
        if entry.outbox.len() <= OUTBOX / 2 {
            wakes.extend(entry.writer.take());
        }
        if entry.outbox.is_empty() {
            entry.turn = 0;
        } else if entry.credit > 0 {
            entry.scheduled = true;
            if entry.run < BULK {
                self.small.push_back(id);
            } else if entry.turn < TURN {
                self.bulk.push_front(id);
            } else {
                entry.turn = 0;
                self.bulk.push_back(id);
            }
        }
        let last = entry.ours == Ours::Resetting && entry.outbox.is_empty();
        if fin {
            self.finished_here(id);
        } else if last {
            self.reset_here(id);
        }
        true
    }
}
