//! Offsets of a log and of its cut middle.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Maximum number of kept bytes of a log.
pub const MAX_LOG_BYTES: u64 = LOG_HEAD_BYTES + LOG_TAIL_BYTES;

/// Number of kept bytes at the begin of a longer log.
pub const LOG_HEAD_BYTES: u64 = 512 * 1024;

/// Number of kept bytes at the end of a longer log.
pub const LOG_TAIL_BYTES: u64 = 512 * 1024;

/// Length of a log: bytes received from its agent, cut ones too.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct LogExtent(pub u64);

/// Work for an accepted piece of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogAppend {
    /// Length with the piece.
    pub after: LogExtent,
    /// Kept bytes that the piece repeats: it is refused unless they are equal.
    pub compare: Vec<Range<u64>>,
    /// New bytes to store.
    pub write: Vec<Range<u64>>,
    /// The cut middle: stored bytes in it may be deleted. Empty in a short log.
    pub cut: Range<u64>,
}

/// A piece beyond the end of a log: bytes between are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected bytes from offset {wanted}")]
pub struct LogGap {
    /// Offset to send from.
    pub wanted: u64,
}

/// Part of a log as people read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogPart {
    /// Stored bytes, by their offsets.
    Bytes(Range<u64>),
    /// Text in place of cut bytes.
    Mark(String),
}

impl LogExtent {
    /// Plans to append a piece. Bytes before the end are repeated ones.
    ///
    /// # Errors
    /// [`LogGap`] if the piece begins after the end.
    pub fn append(self, at: u64, length: u64) -> Result<LogAppend, LogGap> {
        if at > self.0 {
            return Err(LogGap { wanted: self.0 });
        }
        let end = at.saturating_add(length);
        let after = LogExtent(end.max(self.0));
        Ok(LogAppend {
            after,
            compare: without(at..end.min(self.0), &self.cut()),
            write: without(self.0..after.0, &after.cut()),
            cut: after.cut(),
        })
    }

    /// Offsets of the cut middle; empty in a short log.
    #[must_use]
    pub fn cut(self) -> Range<u64> {
        let head = LOG_HEAD_BYTES.min(self.0);
        head..self.0.saturating_sub(LOG_TAIL_BYTES).max(head)
    }

    /// Number of kept bytes.
    #[must_use]
    pub fn kept(self) -> u64 {
        let cut = self.cut();
        self.0 - (cut.end - cut.start)
    }

    /// Parts from this offset on: of a whole log with 0, of a followed one with the end of the last part read.
    #[must_use]
    pub fn parts(self, from: u64) -> Vec<LogPart> {
        let cut = self.cut();
        let bytes = |range: Range<u64>| Some(range).filter(|it| it.start < it.end);
        let head = bytes(from..cut.start).map(LogPart::Bytes);
        let mark = bytes(from.max(cut.start)..cut.end).map(|it| LogPart::Mark(mark(&it)));
        let tail = bytes(from.max(cut.end)..self.0).map(LogPart::Bytes);
        [head, mark, tail].into_iter().flatten().collect()
    }
}

/// Line in place of cut bytes.
fn mark(cut: &Range<u64>) -> String {
    format!("\n[... {} bytes cut ...]\n", cut.end - cut.start)
}

/// Parts of a range outside of the cut.
fn without(range: Range<u64>, cut: &Range<u64>) -> Vec<Range<u64>> {
    let before = range.start..range.end.min(cut.start);
    let after = range.start.max(cut.end)..range.end;
    // Without a cut both ends are one offset, and both parts together are the range.
    let parts = [before, after];
    parts.into_iter().filter(|it| it.start < it.end).collect()
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::single_range_in_vec_init,
        reason = "lists of one range are meant"
    )]

    use super::*;

    const ONE_MIB: u64 = 1024 * 1024;

    #[test]
    fn pieces_come_in_order() {
        let log = LogExtent(100);
        assert_eq!(log.append(101, 5), Err(LogGap { wanted: 100 }));
        let append = log.append(100, 5).unwrap();
        assert_eq!((append.after, append.compare), (LogExtent(105), vec![]));
        assert_eq!(append.write, [100..105]);
        let repeated = log.append(90, 5).unwrap();
        assert_eq!((repeated.after, repeated.write), (log, vec![]));
        assert_eq!(repeated.compare, [90..95]);
        let overlapping = log.append(90, 20).unwrap();
        assert_eq!(
            (overlapping.compare, overlapping.write),
            (vec![90..100], vec![100..110])
        );
    }

    #[test]
    fn middle_of_a_long_log_is_cut_and_marked() {
        let log = LogExtent(ONE_MIB);
        assert_eq!(
            log.parts(0),
            [
                LogPart::Bytes(0..512 * 1024),
                LogPart::Bytes(512 * 1024..ONE_MIB)
            ]
        );
        let append = log.append(ONE_MIB, 10 * ONE_MIB).unwrap();
        let tail = 11 * ONE_MIB - LOG_TAIL_BYTES;
        assert_eq!(append.write, [tail..11 * ONE_MIB]);
        assert_eq!(append.cut, LOG_HEAD_BYTES..tail);
        let log = append.after;
        assert_eq!(log.kept(), MAX_LOG_BYTES);
        let mark = LogPart::Mark("\n[... 10485760 bytes cut ...]\n".to_owned());
        let head = LogPart::Bytes(0..LOG_HEAD_BYTES);
        let end = LogPart::Bytes(tail..11 * ONE_MIB);
        assert_eq!(log.parts(0), [head, mark, end.clone()]);
        assert_eq!(log.parts(tail), [end]);
        let behind = log.parts(ONE_MIB);
        let mark = format!("\n[... {} bytes cut ...]\n", tail - ONE_MIB);
        assert_eq!(behind[0], LogPart::Mark(mark));
        assert_eq!(log.parts(11 * ONE_MIB), []);
    }

    #[test]
    fn offsets_at_the_end_of_the_range_do_not_overflow() {
        let log = LogExtent(u64::MAX - 1);
        let append = log.append(u64::MAX - 1, u64::MAX).unwrap();
        assert_eq!(append.after, LogExtent(u64::MAX));
    }
}
