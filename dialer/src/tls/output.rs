//! Records that wait for a connection.

use std::{cell::RefCell, mem, ops::Range, thread::LocalKey};

use super::records::RecordBuffer;

pub(super) type SpareOutput = LocalKey<RefCell<Vec<u8>>>;

thread_local! {
    // One block of each kind for all connections of a thread without waiting records.
    pub(super) static OUTPUT: RefCell<Vec<u8>> = RefCell::default();
    /// For connections with a larger limit.
    pub(super) static LARGE_OUTPUT: RefCell<Vec<u8>> = RefCell::default();
}

/// Records that wait for a connection. The block keeps its length, so that a borrowed one is filled with zeros only once.
#[derive(Default)]
pub(super) struct Output {
    block: Vec<u8>,
    waiting: Range<usize>,
}

impl Output {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn capacity(&self) -> usize {
        self.block.capacity()
    }

    pub(super) fn records(&self) -> &[u8] {
        self.block.get(self.waiting.clone()).unwrap_or_default()
    }

    /// Consumes written bytes.
    pub(super) fn advance(&mut self, written: usize) {
        self.waiting.start += written.min(self.len());
        if self.is_empty() {
            self.waiting = 0..0;
        }
    }

    /// Gives an empty output the thread's block, unless its own has this capacity.
    pub(super) fn borrow(&mut self, spare: &'static SpareOutput, capacity: usize) {
        if self.is_empty() && self.capacity() < capacity {
            self.block = spare.take();
            // Growth would copy the block.
            self.block
                .reserve_exact(capacity.saturating_sub(self.block.len()));
        }
    }

    /// Returns a block to the thread; what still waits stays in a block of its size.
    pub(super) fn give_back(&mut self, spare: &'static SpareOutput, capacity: usize) {
        let waiting = self.records().to_vec();
        self.waiting = 0..waiting.len();
        let block = mem::replace(&mut self.block, waiting);
        // An error means that the thread is ending.
        let _ = spare.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.capacity() < capacity && block.capacity() >= capacity {
                *spare = block;
            }
        });
    }
}

impl RecordBuffer for Output {
    fn append<E>(
        &mut self,
        bytes: usize,
        seal: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        if self.waiting.end + bytes > self.capacity() {
            self.block.copy_within(self.waiting.clone(), 0);
            self.waiting = 0..self.waiting.len();
        }
        let end = self.waiting.end + bytes;
        if self.block.len() < end {
            self.block.resize(end, 0);
        }
        let room = self.block.get_mut(self.waiting.end..);
        self.waiting.end += seal(room.unwrap_or_default())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(output: &mut Output, record: &[u8]) {
        let sealed = output.append(record.len(), |room| {
            room[..record.len()].copy_from_slice(record);
            Ok::<_, ()>(record.len())
        });
        sealed.unwrap();
    }

    #[test]
    fn what_waits_moves_to_the_front_before_the_block_grows() {
        let mut output = Output::default();
        output.borrow(&OUTPUT, 8);
        put(&mut output, b"abcdef");
        output.advance(4);
        put(&mut output, b"ghijkl");
        assert_eq!((output.records(), output.capacity()), (&b"efghijkl"[..], 8));
        put(&mut output, b"m");
        assert_eq!(output.records(), b"efghijklm");
    }

    #[test]
    fn failed_append_changes_nothing() {
        let mut output = Output::default();
        put(&mut output, b"ab");
        assert_eq!(output.append(3, |room| Err(room.len())), Err(3));
        assert_eq!(output.records(), b"ab");
    }

    #[test]
    fn returned_block_is_borrowed_again_and_what_waits_is_kept() {
        let mut output = Output::default();
        output.borrow(&OUTPUT, 1000);
        put(&mut output, b"abc");
        output.advance(1);
        output.give_back(&OUTPUT, 1000);
        assert_eq!((output.records(), output.capacity()), (&b"bc"[..], 2));
        output.advance(2);
        output.borrow(&OUTPUT, 1000);
        assert_eq!((output.capacity(), output.block.len()), (1000, 3));
    }
}
