//! Buffers for encoded events, which threads keep for their next events.

use std::{cell::RefCell, mem, ops::Deref};

/// Capacity of a new buffer in bytes: nearly all events of requests fit.
const BUFFER_BYTES: usize = 512;
/// Larger buffers are not kept.
const MAX_KEPT_BYTES: usize = 1024;
/// Buffers that a thread keeps.
const MAX_KEPT_BUFFERS: usize = 64;

thread_local! {
    static KEPT: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Buffer for one event. The thread that drops it keeps its memory.
pub(crate) struct EventBuffer(Vec<u8>);

impl EventBuffer {
    /// An empty buffer.
    pub(crate) fn new() -> Self {
        // A thread at its end has no buffers any more.
        let kept = KEPT.try_with(|kept| kept.try_borrow_mut().ok()?.pop());
        let kept = kept.ok().flatten();
        EventBuffer(kept.unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES)))
    }

    pub(crate) const fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl Deref for EventBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for EventBuffer {
    fn drop(&mut self) {
        let mut buffer = mem::take(&mut self.0);
        if buffer.capacity() > MAX_KEPT_BYTES {
            return;
        }
        buffer.clear();
        let _ = KEPT.try_with(|kept| {
            let mut kept = kept.try_borrow_mut().ok()?;
            (kept.len() < MAX_KEPT_BUFFERS).then(|| kept.push(buffer))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> usize {
        KEPT.with_borrow(Vec::len)
    }

    #[test]
    fn kept_buffers_are_empty_and_few() {
        for _ in 0..2 {
            let mut buffers = Vec::new();
            for _ in 0..2 * MAX_KEPT_BUFFERS {
                let mut buffer = EventBuffer::new();
                assert!(buffer.is_empty());
                buffer.bytes().push(b'x');
                buffers.push(buffer);
            }
            drop(buffers);
            assert_eq!(kept(), MAX_KEPT_BUFFERS);
        }
    }

    #[test]
    fn large_buffer_is_not_kept() {
        EventBuffer::new().bytes().resize(MAX_KEPT_BYTES + 1, 0);
        assert_eq!(kept(), 0);
    }
}
