//! What an exchange has yet to write, in order: heads and framing gathered in one buffer, large pieces of bodies as they
//! are. Small ones are copied behind the head before them, so that both leave in one write.

use std::{collections::VecDeque, io::IoSlice};

use bytes::{Buf, Bytes, BytesMut};

/// Pieces up to this many bytes are copied: cheaper than a frame or a TLS record of their own.
const COPIED: usize = 4096;
/// Nothing is added from here on until something was written.
const FULL: usize = 64 * 1024;

#[derive(Default)]
pub struct Outgoing {
    /// Next. Mostly there is nothing but this, and nothing of a queue is made.
    front: Bytes,
    queue: VecDeque<Bytes>,
    /// The bytes of both.
    queued: usize,
    /// Behind the queue.
    tail: BytesMut,
}

impl Outgoing {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queued == 0 && self.tail.is_empty()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.queued + self.tail.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= FULL
    }

    /// To write small things to.
    pub(super) fn tail(&mut self) -> &mut BytesMut {
        &mut self.tail
    }

    pub(super) fn push(&mut self, data: Bytes) {
        if data.len() <= COPIED {
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
            let tail = self.tail.split().freeze();
            self.queue_up(tail);
        }
    }

    /// Hands what is to be written next to `write`, which takes bytes off its front.
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

    /// As many pieces as there is room for.
    pub fn slices<'a>(&'a mut self, slices: &mut [IoSlice<'a>]) -> usize {
        self.seal();
        let front = Some(&self.front).filter(|front| !front.is_empty());
        let pieces = slices.iter_mut().zip(front.into_iter().chain(&self.queue));
        pieces
            .map(|(slice, piece)| *slice = IoSlice::new(piece))
            .count()
    }

    /// So many bytes of the pieces were written.
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

    /// The first bytes of it all, once more, as long as none was written.
    pub(super) fn sealed(&mut self) -> Bytes {
        self.seal();
        self.front.clone()
    }

    /// Gives its buffer back; nothing is waiting.
    pub(super) fn rest(&mut self) {
        self.tail = BytesMut::new();
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
