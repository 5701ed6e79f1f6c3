//! Output to the peer, message by message: control frames, then small streams, then bulk.
//!
//! A stream is bulk once it has sent [`BULK_BYTES`] bytes more than a conversation would. Data of the
//! peer on the stream counts against these bytes [`ANSWER_WEIGHT`] fold, and so does idle time. An empty
//! outbox is no sign, because the socket may take everything; nor is a single reply, because bulk
//! may have acknowledgements of its own.
//!
//! Small streams take turns frame by frame. A bulk stream keeps its turn for [`BULK_TURN_BYTES`] bytes, and a
//! bulk stream gets a turn at least every [`MAX_MESSAGES_WITHOUT_BULK`] messages.

use std::{
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::{BufMut, BytesMut};
use tokio::time::Instant;

use super::{
    frame::{FIN_FLAG, FrameType, HEADER_BYTES, Header, MESSAGE_BYTES},
    state::{Entry, MuxState, OUTBOX_BYTES, Ours, store_waker},
};

const BULK_BYTES: usize = 64 * 1024;
/// Sent bytes that one received byte cancels out.
const ANSWER_WEIGHT: usize = 64;
/// Idle time after which [`BULK_BYTES`] bytes are forgotten: a stream below 256 KiB/s is not bulk.
const BULK_DECAY_TIME: Duration = Duration::from_millis(250);
const BULK_TURN_BYTES: usize = 64 * 1024;
const MAX_MESSAGES_WITHOUT_BULK: u32 = 8;
/// A message with less capacity than this in bytes takes no further frame: half a frame costs as
/// much as a whole one.
const MIN_FRAME_CAPACITY: usize = 1024;
/// Usual capacity of the control queue.
const USUAL_CONTROL_FRAMES: usize = 64;

impl Entry {
    /// Accounts for sent bytes.
    fn ran(&mut self, bytes: usize) {
        self.run = (self.run + bytes).min(2 * BULK_BYTES);
        // Most streams never need the clock.
        if self.outbox.is_empty() && self.run >= BULK_BYTES / 2 {
            self.dry = Some(Instant::now());
        }
    }

    /// Accounts for the idle time before new output.
    fn runs_again(&mut self) {
        if let Some(dry) = self.dry.take() {
            let idle = dry.elapsed().min(2 * BULK_DECAY_TIME).as_micros();
            let forgotten = idle * BULK_BYTES as u128 / BULK_DECAY_TIME.as_micros();
            let forgotten = usize::try_from(forgotten).unwrap_or(usize::MAX);
            self.run = self.run.saturating_sub(forgotten);
        }
    }

    /// Accounts for received bytes.
    pub(super) fn answered(&mut self, bytes: usize) {
        self.run = self.run.saturating_sub(bytes.saturating_mul(ANSWER_WEIGHT));
    }
}

impl MuxState {
    /// Ready when writes to the stream have no receiver: the peer has reset it, or the session is
    /// over. For writers, because a reader sees the reset only after all received data.
    pub(super) fn gone(&mut self, id: u32, cx: &Context<'_>) -> Poll<()> {
        match self.streams.get_mut(&id) {
            Some(entry) if !entry.reset && self.ended.is_none() => {
                store_waker(&mut entry.writer, cx);
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Puts a stream with output into its queue.
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
        if entry.run >= BULK_BYTES {
            self.bulk.push_back(id);
        } else {
            self.small.push_back(id);
        }
        self.wake_driver = true;
    }

    /// True if [`MuxState::fill`] would append anything.
    pub(super) fn has_output(&self, bulk: bool) -> bool {
        !(self.control.is_empty() && self.small.is_empty() && (self.bulk.is_empty() || !bulk))
    }

    /// Appends one message of whole frames to `out`: at most [`MESSAGE_BYTES`] bytes.
    pub(super) fn fill(&mut self, out: &mut BytesMut, bulk: bool, wakes: &mut Vec<Waker>) {
        let end = out.len() + MESSAGE_BYTES;
        if !self.fill_control(out, end) {
            return;
        }
        let mut took_bulk = false;
        if bulk && self.since_bulk >= MAX_MESSAGES_WITHOUT_BULK {
            took_bulk = self.fill_from_bulk(out, end, wakes);
        }
        while end - out.len() >= MIN_FRAME_CAPACITY
            && let Some(id) = self.small.pop_front()
        {
            self.fill_from(id, out, end, wakes);
        }
        while bulk && end - out.len() >= MIN_FRAME_CAPACITY && !self.bulk.is_empty() {
            took_bulk |= self.fill_from_bulk(out, end, wakes);
        }
        self.since_bulk = match took_bulk || self.bulk.is_empty() {
            true => 0,
            false => self.since_bulk.saturating_add(1),
        };
    }

    /// Appends control frames; false if the message is full.
    fn fill_control(&mut self, out: &mut BytesMut, end: usize) -> bool {
        while end - out.len() >= HEADER_BYTES
            && let Some(header) = self.control.pop_front()
        {
            if header.kind == FrameType::Ping {
                self.pongs = self.pongs.saturating_sub(1);
            }
            out.put_slice(&header.encode());
        }
        if self.control.is_empty() && self.control.capacity() > 4 * USUAL_CONTROL_FRAMES {
            self.control.shrink_to(USUAL_CONTROL_FRAMES);
        }
        self.control.is_empty()
    }

    fn fill_from_bulk(&mut self, out: &mut BytesMut, end: usize, wakes: &mut Vec<Waker>) -> bool {
        self.bulk
            .pop_front()
            .is_some_and(|id| self.fill_from(id, out, end, wakes))
    }

    /// Appends one frame of a stream; false if the stream had no output.
    fn fill_from(
        &mut self,
        id: u32,
        out: &mut BytesMut,
        end: usize,
        wakes: &mut Vec<Waker>,
    ) -> bool {
        let room = (end - out.len()).saturating_sub(HEADER_BYTES);
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
        // Not above the credit, which has 32 bits.
        let told = u32::try_from(length).unwrap_or(entry.credit);
        let flags = if fin { FIN_FLAG } else { 0 };
        out.put_slice(&Header::data(id, flags, told).encode());
        entry.outbox.drain_into(out, length);
        entry.credit -= told;
        entry.ran(length);
        entry.turn += length;
        if entry.outbox.len() <= OUTBOX_BYTES / 2 {
            wakes.extend(entry.writer.take());
        }
        if entry.outbox.is_empty() {
            entry.turn = 0;
        } else if entry.credit > 0 {
            entry.scheduled = true;
            if entry.run < BULK_BYTES {
                self.small.push_back(id);
            } else if entry.turn < BULK_TURN_BYTES {
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
