//! Bytes of one direction of a stream, in order. Small pieces are merged, so that a flood of tiny
//! frames or writes costs no more memory than their bytes, and a small slice pins no large block.
//! Holds no memory while empty.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::ReadBuf;

/// Pieces below this size in bytes are copied.
const COPY_BELOW: usize = 4096;

#[derive(Default)]
pub(super) struct Queue {
    pieces: VecDeque<Bytes>,
    /// Merged bytes after the last piece.
    tail: BytesMut,
    len: usize,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[cfg(test)]
    pub(super) fn pieces(&self) -> usize {
        self.pieces.len() + usize::from(!self.tail.is_empty())
    }

    pub(super) fn push(&mut self, piece: Bytes) {
        if piece.len() < COPY_BELOW {
            return self.push_slice(&piece);
        }
        self.len += piece.len();
        self.close_tail();
        self.pieces.push_back(piece);
    }

    pub(super) fn push_slice(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        self.tail.extend_from_slice(bytes);
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            self.pieces
                .push_back(std::mem::take(&mut self.tail).freeze());
        }
    }

    /// Next piece, as it was pushed or merged.
    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let piece = match self.pieces.pop_front() {
            Some(piece) => piece,
            None if self.tail.is_empty() => return None,
            // Without a place in the list, which would be memory.
            None => std::mem::take(&mut self.tail).freeze(),
        };
        self.len -= piece.len();
        self.rest();
        Some(piece)
    }

    /// Copies as much as `into` has capacity for.
    pub(super) fn read_into(&mut self, into: &mut ReadBuf<'_>) {
        let most = into.remaining();
        self.take(most, |part| into.put_slice(part));
    }

    /// Copies at most `most` bytes.
    pub(super) fn drain_into(&mut self, into: &mut BytesMut, most: usize) {
        self.take(most, |part| into.extend_from_slice(part));
    }

    fn take(&mut self, most: usize, mut copy: impl FnMut(&[u8])) {
        let mut left = most;
        while left > 0 {
            let Some(front) = self.pieces.front_mut() else {
                let part = left.min(self.tail.len());
                copy(self.tail.get(..part).unwrap_or_default());
                self.tail.advance(part);
                self.len -= part;
                break;
            };
            let part = left.min(front.len());
            copy(front.get(..part).unwrap_or_default());
            front.advance(part);
            left -= part;
            self.len -= part;
            if front.is_empty() {
                self.pieces.pop_front();
            }
        }
        self.rest();
    }

    /// Drops everything after the first `most` bytes.
    pub(super) fn truncate(&mut self, most: usize) {
        let mut excess = self.len.saturating_sub(most);
        self.len -= excess;
        let part = excess.min(self.tail.len());
        self.tail.truncate(self.tail.len() - part);
        excess -= part;
        while excess > 0
            && let Some(back) = self.pieces.back_mut()
        {
            let part = excess.min(back.len());
            back.truncate(back.len() - part);
            excess -= part;
            if back.is_empty() {
                self.pieces.pop_back();
            }
        }
        self.rest();
    }

    fn rest(&mut self) {
        if self.len == 0 {
            self.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Queue::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_come_out_as_they_went_in(
            sizes in prop::collection::vec(0..10_000_usize, 0..20),
            takes in prop::collection::vec(1..9_000_usize, 1..20),
        ) {
            let mut queue = Queue::default();
            let mut sent = Vec::new();
            for (n, size) in sizes.into_iter().enumerate() {
                let piece: Vec<u8> = (0..size).map(|at| (at * 7 + n) as u8).collect();
                sent.extend_from_slice(&piece);
                if n % 2 == 0 {
                    queue.push(piece.into());
                } else {
                    queue.push_slice(&piece);
                }
            }
            prop_assert_eq!(queue.len(), sent.len());
            let mut got = Vec::new();
            for (n, most) in takes.into_iter().cycle().enumerate() {
                let before = queue.len();
                match n % 4 {
                    0 => got.extend_from_slice(&queue.pop().unwrap_or_default()),
                    1 => {
                        let mut part = BytesMut::new();
                        queue.drain_into(&mut part, most);
                        prop_assert_eq!(part.len(), most.min(before));
                        got.extend_from_slice(&part);
                    }
                    2 => {
                        let store_waker = before.saturating_sub(most / 8);
                        queue.truncate(store_waker);
                        sent.truncate(sent.len() - (before - store_waker));
                    }
                    _ => {
                        let mut room = vec![0; most];
                        let mut room = ReadBuf::new(&mut room);
                        queue.read_into(&mut room);
                        got.extend_from_slice(room.filled());
                    }
                }
                if queue.is_empty() {
                    break;
                }
            }
            prop_assert!(got == sent);
        }
    }

    #[test]
    fn small_pieces_pin_no_large_block_and_are_gathered() {
        let block = Bytes::from(vec![1; 128 * 1024]);
        let mut queue = Queue::default();
        for at in 0..1000 {
            queue.push(block.slice(at..at + 1));
        }
        drop(block.clone());
        assert!(block.is_unique());
        assert_eq!(queue.pop().unwrap().len(), 1000);
        assert!(queue.pop().is_none());
    }
}
