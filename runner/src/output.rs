//! Output of a program by offset: the first and the last half of a limit, with a cut between.

use std::collections::VecDeque;

/// Bytes of one stream, bounded.
pub(crate) struct Output {
    first: Vec<u8>,
    last: VecDeque<u8>,
    total: u64,
    half_bytes: usize,
}

/// Piece of the output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Offset of the first byte; higher than requested after a cut.
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Output {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Output {
            first: Vec::new(),
            last: VecDeque::new(),
            total: 0,
            half_bytes: max_bytes / 2,
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let capacity = self.half_bytes - self.first.len().min(self.half_bytes);
        let (first, rest) = bytes.split_at(capacity.min(bytes.len()));
        self.first.extend_from_slice(first);
        let rest = rest.get(rest.len().saturating_sub(self.half_bytes)..);
        let rest = rest.unwrap_or_default();
        let excess = (self.last.len() + rest.len()).saturating_sub(self.half_bytes);
        self.last.drain(..excess);
        self.last.extend(rest);
    }

    /// Up to `max` bytes from this offset; `None` if it lies behind the end.
    pub(crate) fn read(&self, from: u64, max: usize) -> Option<Piece> {
        if from > self.total {
            return None;
        }
        let start = usize::try_from(from).unwrap_or(usize::MAX);
        if let Some(bytes) = self.first.get(start..)
            && !bytes.is_empty()
        {
            let bytes = bytes.get(..max).unwrap_or(bytes).to_vec();
            return Some(Piece {
                offset: from,
                bytes,
            });
        }
        let kept_from = self.total - self.last.len() as u64;
        let offset = from.max(kept_from);
        let skip = usize::try_from(offset - kept_from).unwrap_or(usize::MAX);
        let bytes = self.last.iter().skip(skip).take(max).copied().collect();
        Some(Piece { offset, bytes })
    }
}

/// Mark in a log in place of bytes that were cut.
#[must_use]
pub fn cut_mark(bytes: u64) -> String {
    format!("\n[... {bytes} bytes cut ...]\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(range: std::ops::Range<u32>) -> Vec<u8> {
        range.map(|n| (n % 251) as u8).collect()
    }

    #[test]
    fn reader_gets_each_byte_once_in_pieces_of_any_size() {
        let mut output = Output::new(1000);
        let all = numbers(0..1000);
        for chunk in all.chunks(7) {
            output.push(chunk);
        }
        for max in [1, 3, 64, 500, 1000] {
            let mut read = Vec::new();
            while read.len() < all.len() {
                let piece = output.read(read.len() as u64, max).unwrap();
                assert_eq!(piece.offset, read.len() as u64);
                assert!(!piece.bytes.is_empty() && piece.bytes.len() <= max);
                read.extend(piece.bytes);
            }
            assert_eq!(read, all);
        }
        assert!(output.read(1000, 1).unwrap().bytes.is_empty());
        assert_eq!(output.read(1001, 1), None);
    }

    #[test]
    fn middle_of_a_long_output_is_cut_and_the_offset_tells_it() {
        for size in [1, 9, 64, 499, 500, 501, 5000] {
            let mut output = Output::new(1000);
            let all = numbers(0..10_000);
            for chunk in all.chunks(size) {
                output.push(chunk);
            }
            assert_eq!(output.total(), 10_000);
            assert!(output.first.len() + output.last.len() <= 1000);
            let head = output.read(0, 10_000).unwrap();
            assert_eq!((head.offset, &head.bytes[..]), (0, &all[..500]));
            let tail = output.read(500, 10_000).unwrap();
            assert_eq!((tail.offset, &tail.bytes[..]), (9500, &all[9500..]));
            let late = output.read(9_990, 10_000).unwrap();
            assert_eq!((late.offset, &late.bytes[..]), (9990, &all[9990..]));
        }
    }
}
