//! Masking of a text that comes in chunks.

use std::sync::Arc;

use crate::matcher::{Matcher, merged};

/// Text in the place of a secret value.
pub const MASK: &str = "***";

/// Masks chunks. A value may lie across chunks, so that the end of a chunk is held back until the next one.
#[derive(Debug)]
pub struct MaskStream {
    matcher: Arc<Matcher>,
    /// Bytes that may begin a value.
    carry: Vec<u8>,
    /// Number of first bytes of `carry` that belong to the mask at the end of the written text; `None` without one.
    masked: Option<usize>,
}

impl MaskStream {
    pub(crate) fn new(matcher: Arc<Matcher>) -> Self {
        Self {
            matcher,
            carry: Vec::new(),
            masked: None,
        }
    }

    /// Takes a chunk and appends the masked text to `out`. At most the length of the longest form is held back.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        self.carry.extend_from_slice(chunk);
        // A value that is not complete begins behind this byte; one more byte may be its edge.
        let held = match self.matcher.longest() {
            0 => 0,
            longest => longest + 1,
        };
        let end = self.carry.len().saturating_sub(held);
        self.write(end, out);
    }

    /// Appends the rest.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        let end = self.carry.len();
        self.write(end, out);
    }

    /// Writes the bytes before `end` and keeps the others.
    fn write(&mut self, end: usize, out: &mut Vec<u8>) {
        if end == 0 {
            return;
        }
        let mut ranges = self.matcher.ranges(&self.carry);
        let mut is_open = false;
        if let Some(masked) = self.masked.take() {
            ranges.insert(0, 0..masked);
            ranges = merged(ranges);
            is_open = true;
        }
        let mut at = 0;
        for range in ranges.into_iter().take_while(|it| it.start < end) {
            out.extend(self.carry.get(at..range.start).unwrap_or_default());
            // The mask of the first range may be written already.
            if !std::mem::take(&mut is_open) {
                out.extend(MASK.as_bytes());
            }
            at = range.end.min(end);
            self.masked = range.end.checked_sub(end);
        }
        out.extend(self.carry.get(at..end).unwrap_or_default());
        self.carry.drain(..end);
    }
}
