//! Output queue of an exchange: heads and framing merged in one buffer, large pieces of bodies
//! without a copy. Small pieces are copied after the head before them, so that both leave in one
//! write.

use std::{collections::VecDeque, io::IoSlice};

use bytes::{Buf, Bytes, BytesMut};

/// Largest piece that is copied, in bytes: cheaper than a separate frame or TLS record.
pub(crate) const MAX_COPIED_BYTES: usize = 4096;
/// Queued bytes at which nothing more is added until a write.
const FULL_QUEUE_BYTES: usize = 64 * 1024;

/// Output queue of an exchange.
#[derive(Default)]
pub struct Outgoing {
    /// Next piece. Mostly it is the only one, so that no queue is allocated.
    front: Bytes,
    queue: VecDeque<Bytes>,
    /// Bytes in `front` and `queue`.
    queued: usize,
    /// After the queue.
    tail: BytesMut,
    /// Largest size of `tail`, in bytes.
    tail_bytes: usize,
}

impl Outgoing {
    /// True without queued output.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queued == 0 && self.tail.is_empty()
    }

    /// Number of queued bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queued + self.tail.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= FULL_QUEUE_BYTES
    }

    /// Output that begins with a head.
    pub(crate) fn begun(head: BytesMut) -> Self {
        Outgoing {
            tail: head,
            ..Outgoing::default()
        }
    }

    /// Buffer for small output.
    pub(crate) fn tail(&mut self) -> &mut BytesMut {
        &mut self.tail
    }

    pub(crate) fn push(&mut self, data: Bytes) {
        if data.len() <= MAX_COPIED_BYTES {
            self.tail.extend_from_slice(&data);
        } else {
            self.seal();
            self.queue_up(data);
        }
    }

    fn queue_up(&mut self, data: Bytes) {
        self.queued += data.len();
        if self.front.is_empty() {
            self.front = data;
        } else {
            self.queue.push_back(data);
        }
    }

    fn seal(&mut self) {
        if !self.tail.is_empty() {
            self.tail_bytes = self.tail_bytes.max(self.tail.capacity());
            let tail = self.tail.split().freeze();
            self.queue_up(tail);
        }
    }

    /// Passes the next bytes to `write`, which consumes them from the front.
    pub fn with_front<T>(&mut self, write: impl FnOnce(&mut Bytes) -> T) -> Option<T> {
        if self.front.is_empty() {
            self.seal();
        }
        let before = self.front.len();
        let written = (before > 0).then(|| write(&mut self.front));
        self.queued -= before - self.front.len();
        if self.front.is_empty() {
            self.front = self.queue.pop_front().unwrap_or_default();
        }
        written
    }

    /// Fills `slices` with the next pieces; returns their number.
    pub fn slices<'a>(&'a mut self, slices: &mut [IoSlice<'a>]) -> usize {
        self.seal();
        let front = Some(&self.front).filter(|front| !front.is_empty());
        let pieces = slices.iter_mut().zip(front.into_iter().chain(&self.queue));
        pieces
            .map(|(slice, piece)| *slice = IoSlice::new(piece))
            .count()
    }

    /// Consumes written bytes.
    pub fn advance(&mut self, mut written: usize) {
        while written > 0 {
            let taken = self.with_front(|front| {
                let taken = written.min(front.len());
                front.advance(taken);
                taken
            });
            written -= taken.unwrap_or(written);
        }
    }

    /// Copy of all queued bytes, before the first write.
    pub(crate) fn sealed(&mut self) -> Bytes {
        self.seal();
        self.front.clone()
    }

    /// Frees the empty buffer, unless it has at most `kept` bytes.
    pub(crate) fn rest(&mut self, kept: usize) {
        if self.tail_bytes > kept {
            self.tail = BytesMut::new();
            self.tail_bytes = 0;
        }
        if self.queue.capacity() > 64 {
            self.queue = VecDeque::new();
        }
    }
}

impl From<Bytes> for Outgoing {
    fn from(bytes: Bytes) -> Self {
        Outgoing {
            queued: bytes.len(),
            front: bytes,
            ..Outgoing::default()
        }
    }
}
