//! Blocks that the connections of a thread borrow for their input.

use std::{cell::RefCell, thread::LocalKey};

use bytes::BytesMut;

pub(super) type SpareBlock = LocalKey<RefCell<BytesMut>>;

thread_local! {
    // One block of each kind for all idle connections of a thread.
    pub(super) static SEALED: RefCell<BytesMut> = RefCell::default();
    pub(super) static PLAIN: RefCell<BytesMut> = RefCell::default();
    /// Small pieces that become one record.
    pub(super) static GATHERED: RefCell<BytesMut> = RefCell::default();
}

/// Gives a buffer this capacity, with the thread's block unless its own has as much.
pub(super) fn borrow(spare: &'static SpareBlock, buffer: &mut BytesMut, capacity: usize) {
    if !buffer.try_reclaim(capacity.saturating_sub(buffer.len())) {
        let mut block = spare.take();
        block.clear();
        block.reserve(capacity);
        block.extend_from_slice(buffer);
        *buffer = block;
    }
}

/// Returns a block to the thread; what it still holds stays in a buffer of its size.
pub(super) fn give_back(spare: &'static SpareBlock, buffer: &mut BytesMut, capacity: usize) {
    let mut block = std::mem::take(buffer);
    if !block.is_empty() {
        *buffer = BytesMut::from(&*block);
        block.clear();
    }
    // An error means that the thread is ending.
    let _ = spare.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.capacity() < capacity && block.try_reclaim(capacity) {
            *spare = block;
        }
    });
}
