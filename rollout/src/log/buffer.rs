//! A log in memory, at most 1 MiB large.

use std::collections::VecDeque;

use super::extent::{LOG_HEAD_BYTES, LOG_TAIL_BYTES, LogExtent, LogGap, LogPart};

/// A log in memory with the rules of [`LogExtent`].
#[derive(Debug, Clone, Default)]
pub struct LogBuffer {
    extent: LogExtent,
    head: Vec<u8>,
    /// Last bytes after the head.
    tail: VecDeque<u8>,
}

/// Refusal of a piece of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppendRefusal {
    /// Bytes before the piece are missing.
    #[error(transparent)]
    Gap(#[from] LogGap),
    /// A repeated byte differs from the stored one.
    #[error("the byte at offset {at} differs from the stored one")]
    Different {
        /// Its offset.
        at: u64,
    },
}

impl LogBuffer {
    /// Appends a piece. Repeated bytes are ignored; cut ones are not compared.
    ///
    /// # Errors
    /// [`AppendRefusal`] if the piece begins after the end, or differs from stored bytes.
    pub fn append(&mut self, at: u64, bytes: &[u8]) -> Result<LogExtent, AppendRefusal> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let append = self.extent.append(at, length)?;
        let byte = |offset: u64| bytes.get(usize::try_from(offset - at).ok()?).copied();
        let mut repeated = append.compare.into_iter().flatten();
        if let Some(at) = repeated.find(|offset| self.byte(*offset) != byte(*offset)) {
            return Err(AppendRefusal::Different { at });
        }
        let new = self.extent.0.saturating_sub(at);
        let new = usize::try_from(new).ok().and_then(|it| bytes.get(it..));
        let new = new.unwrap_or_default();
        let free = usize_of(LOG_HEAD_BYTES).saturating_sub(self.head.len());
        let (head, tail) = new.split_at(free.min(new.len()));
        self.head.extend(head);
        let last = tail.len().saturating_sub(usize_of(LOG_TAIL_BYTES));
        self.tail.extend(tail.iter().skip(last));
        let surplus = self.tail.len().saturating_sub(usize_of(LOG_TAIL_BYTES));
        self.tail.drain(..surplus);
        self.extent = append.after;
        Ok(self.extent)
    }

    /// Length of the log.
    #[must_use]
    pub fn extent(&self) -> LogExtent {
        self.extent
    }

    /// The log from this offset on, with the mark of its cut.
    #[must_use]
    pub fn read(&self, from: u64) -> Vec<u8> {
        let mut read = Vec::new();
        for part in self.extent.parts(from) {
            match part {
                LogPart::Bytes(range) => read.extend(range.filter_map(|at| self.byte(at))),
                LogPart::Mark(mark) => read.extend(mark.bytes()),
            }
        }
        read
    }

    fn byte(&self, offset: u64) -> Option<u8> {
        if let Some(byte) = self.head.get(usize_of(offset)) {
            return Some(*byte);
        }
        let tail_len = u64::try_from(self.tail.len()).unwrap_or(u64::MAX);
        let start = self.extent.0.saturating_sub(tail_len);
        self.tail.get(usize_of(offset.checked_sub(start)?)).copied()
    }
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn source(length: u64) -> Vec<u8> {
        (0..length).map(|at| (at % 251) as u8).collect()
    }

    /// The log as people read it, made of all its bytes at once.
    fn expected(bytes: &[u8]) -> Vec<u8> {
        let (head, tail) = (LOG_HEAD_BYTES as usize, LOG_TAIL_BYTES as usize);
        if bytes.len() <= head + tail {
            return bytes.to_vec();
        }
        let cut = bytes.len() - head - tail;
        let mark = format!("\n[... {cut} bytes cut ...]\n");
        [
            &bytes[..head],
            mark.as_bytes(),
            &bytes[bytes.len() - tail..],
        ]
        .concat()
    }

    #[test]
    fn different_bytes_are_refused() {
        let mut log = LogBuffer::default();
        log.append(0, b"abcdef").unwrap();
        let different = AppendRefusal::Different { at: 4 };
        assert_eq!(log.append(3, b"dXfg"), Err(different));
        assert_eq!(log.append(3, b"defg"), Ok(LogExtent(7)));
        let gap = AppendRefusal::Gap(LogGap { wanted: 7 });
        assert_eq!(log.append(8, b"x"), Err(gap));
        assert_eq!(log.read(0), b"abcdefg");
        assert_eq!(log.read(5), b"fg");
        assert_eq!(log.append(7, b""), Ok(LogExtent(7)));
    }

    #[test]
    fn long_output_fits_in_one_mebibyte() {
        let piece = source(64 * 1024 - 7);
        let mut log = LogBuffer::default();
        for _ in 0..400 {
            log.append(log.extent().0, &piece).unwrap();
        }
        assert_eq!(log.read(0), expected(&piece.repeat(400)));
        assert!(log.head.len() + log.tail.len() <= 1024 * 1024);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn repeated_reordered_and_cut_pieces_make_the_same_log(
            length in 0_u64..2_500_000,
            pieces in vec((any::<u64>(), 1_u64..400_000), 0..40),
        ) {
            let bytes = source(length);
            let mut log = LogBuffer::default();
            let piece = |at: u64, size: u64| &bytes[at as usize..(at + size).min(length) as usize];
            for (at, size) in pieces {
                let at = at % (length + 1);
                let end = log.extent().0;
                match log.append(at, piece(at, size)) {
                    Ok(extent) => prop_assert_eq!(extent.0, end.max((at + size).min(length))),
                    Err(refusal) => prop_assert_eq!(refusal, AppendRefusal::Gap(LogGap { wanted: end })),
                }
            }
            while log.extent().0 < length {
                let at = log.extent().0;
                log.append(at, piece(at, 100_000)).unwrap();
            }
            prop_assert!(log.read(0) == expected(&bytes));
        }
    }
}
