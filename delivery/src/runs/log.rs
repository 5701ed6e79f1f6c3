//! Logs of runs: pieces from agents, and text for people.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use fairlead_api::{ClusterId, RunId};
use fairlead_delivery_store::LogPiece;
use fairlead_rollout::{AppendRefusal, LogExtent, LogPart};
use fairlead_store::StoreError;

use super::{Runs, refusal::PieceRefusal};

/// Number of pieces per read: at most 1 MiB.
const PIECES_PER_READ: u32 = 16;
/// Number of attempts to append while others append to the same log.
const MAX_APPENDS: usize = 4;

impl Runs {
    /// Appends a piece of a log, for the current attempt, and returns the length of the log.
    ///
    /// Repeated bytes are compared, and not stored again. Each piece renews the lease of its attempt.
    pub(super) async fn append(
        &self,
        cluster: &ClusterId,
        id: &RunId,
        (attempt, at, bytes): (u32, u64, &Bytes),
    ) -> Result<u64, PieceRefusal> {
        let (run, mut stored) = self.of_cluster_with_log(cluster, id).await?;
        self.renew(&run, attempt, None).await?;
        for _ in 0..MAX_APPENDS {
            let appended = self.append_at(id, LogExtent(stored), (at, bytes)).await?;
            if let Some(length) = appended {
                self.announce();
                return Ok(length);
            }
            stored = self.parts.logs.length(id).await?;
        }
        // Somebody else sends the same log. The agent goes on from there.
        Err(PieceRefusal::Gap { wanted: stored })
    }

    /// `None` if the log has changed meanwhile.
    async fn append_at(
        &self,
        id: &RunId,
        extent: LogExtent,
        (at, bytes): (u64, &Bytes),
    ) -> Result<Option<u64>, PieceRefusal> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let append = extent.append(at, length);
        let append = append.map_err(|gap| PieceRefusal::of_append(id, gap.into()))?;
        for range in append.compare {
            let stored = self.stored(id, range.clone()).await?;
            let sent = slice(bytes, at, &range);
            if let Some(offset) = difference(&stored, &sent) {
                let at = range.start + offset;
                return Err(PieceRefusal::of_append(id, AppendRefusal::Different { at }));
            }
        }
        for range in append.write {
            let new = slice(bytes, at, &range);
            // The offset of a piece is the length before it, so that of two writers one loses.
            if !self.parts.logs.append(id, range.start, &new).await? {
                return Ok(None);
            }
        }
        if !append.cut.is_empty() {
            self.parts.logs.cut(id, append.cut).await?;
        }
        Ok(Some(append.after.0))
    }

    /// Stored bytes of a range; missing ones in the cut middle are left out.
    async fn stored(&self, id: &RunId, range: Range<u64>) -> Result<Bytes, StoreError> {
        let mut found = BytesMut::new();
        let mut from = range.start;
        while from < range.end {
            let pieces = self.parts.logs.read(id, from, PIECES_PER_READ).await?;
            let Some(last) = pieces.last().map(end_of) else {
                break;
            };
            for piece in &pieces {
                let part = from.max(piece.at)..range.end.min(end_of(piece));
                if part.start < part.end {
                    found.extend_from_slice(&slice(&piece.bytes, piece.at, &part));
                }
            }
            from = last.max(from + 1);
        }
        Ok(found.freeze())
    }

    /// Text of a log from this offset on, and its length. The cut middle is one marked line.
    pub(super) async fn text(&self, id: &RunId, from: u64) -> Result<(Bytes, u64), StoreError> {
        let extent = LogExtent(self.parts.logs.length(id).await?);
        let mut text = BytesMut::new();
        for part in extent.parts(from) {
            match part {
                LogPart::Bytes(range) => text.extend_from_slice(&self.stored(id, range).await?),
                LogPart::Mark(mark) => text.extend_from_slice(mark.as_bytes()),
            }
        }
        Ok((text.freeze(), extent.0))
    }
}

fn end_of(piece: &LogPiece) -> u64 {
    let length = u64::try_from(piece.bytes.len()).unwrap_or(u64::MAX);
    piece.at.saturating_add(length)
}

/// Bytes of a range of offsets from a piece that begins at `at`.
pub(super) fn slice(bytes: &Bytes, at: u64, range: &Range<u64>) -> Bytes {
    let index = |offset: u64| {
        let index = usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX);
        index.min(bytes.len())
    };
    bytes.slice(index(range.start)..index(range.end))
}

/// Place of the first difference.
fn difference(stored: &[u8], sent: &[u8]) -> Option<u64> {
    let mut pairs = stored.iter().zip(sent);
    let place = pairs.position(|(one, other)| one != other)?;
    u64::try_from(place).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_stay_within_their_piece() {
        let piece = Bytes::from_static(b"abcdef");
        assert_eq!(slice(&piece, 10, &(12..14)), "cd");
        assert_eq!(slice(&piece, 10, &(8..99)), "abcdef");
        assert_eq!(slice(&piece, 10, &(20..30)), "");
        assert_eq!(difference(b"abc", b"abX"), Some(2));
        assert_eq!(difference(b"abc", b"ab"), None);
    }
}
