//! Retransmit buffer: encoded frames not yet acknowledged by the peer, and the byte counts of a
//! session over all its links.
//!
//! Complete WebSocket frames are kept, so that a new link sends them again without a copy. When the
//! buffer is full, nothing is sealed.

use std::collections::VecDeque;

use bytes::Bytes;

use super::size::MAX_MESSAGE_BYTES;
use crate::{
    link::InvalidCount,
    memory::{MemoryBudget, Reservation},
};

/// Memory overhead of a kept frame, in bytes.
const FRAME_OVERHEAD: usize = 64;
/// Bytes that a session may always keep, whatever the others hold: enough to make progress.
const OWN_BYTES: usize = 256 * 1024;
/// Unit of reservations in the memory budget, in bytes.
const RESERVATION_STEP: usize = 64 * 1024;
/// Capacity that plaintext never uses: for messages of TLS itself.
const TLS_SPARE_BYTES: usize = 16 * 1024;

pub(crate) struct RetransmitBuffer {
    received: u64,
    sent: u64,
    acknowledged: u64,
    /// Each frame with the count of bytes sent up to its end.
    kept: VecDeque<(u64, Bytes)>,
    size: usize,
    limit: usize,
    /// Reservation for bytes beyond [`OWN_BYTES`].
    reservation: Reservation,
    /// False for a session that cannot be resumed: it counts, but keeps nothing.
    keeps: bool,
}

impl RetransmitBuffer {
    /// `limit` is at least two messages.
    pub(crate) fn new(limit: usize, memory: &MemoryBudget) -> Self {
        RetransmitBuffer {
            received: 0,
            sent: 0,
            acknowledged: 0,
            kept: VecDeque::new(),
            size: 0,
            limit: limit.max(TLS_SPARE_BYTES + 2 * (MAX_MESSAGE_BYTES + FRAME_OVERHEAD)),
            reservation: memory.reservation(),
            keeps: true,
        }
    }

    pub(crate) fn disable(&mut self) {
        self.keeps = false;
        self.kept = VecDeque::new();
        self.size = 0;
        self.settle();
    }

    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes sent and not acknowledged.
    pub(crate) fn flight(&self) -> u64 {
        self.sent - self.acknowledged
    }

    /// Bytes that may be sealed now: zero, or at least one message.
    pub(crate) fn room(&self) -> usize {
        let room = self.bound().saturating_sub(self.size + TLS_SPARE_BYTES);
        if room >= MAX_MESSAGE_BYTES + FRAME_OVERHEAD {
            room
        } else {
            0
        }
    }

    /// Bytes that may be kept, given the state of the memory budget.
    fn bound(&self) -> usize {
        if self.reservation.allows(RESERVATION_STEP) {
            self.limit
        } else {
            self.limit.min(OWN_BYTES + self.reservation.bytes())
        }
    }

    /// Adjusts the reservation to the kept bytes.
    fn settle(&mut self) {
        let needed = self
            .size
            .saturating_sub(OWN_BYTES)
            .next_multiple_of(RESERVATION_STEP);
        let had = self.reservation.bytes();
        if needed > had {
            self.reservation.force(needed - had);
        } else {
            self.reservation.release(had - needed);
        }
    }

    /// True if more than an eighth of the capacity is left.
    pub(crate) fn room_for_bulk(&self) -> bool {
        self.room() > self.bound() / 8
    }

    /// True if the peer made us exceed the limit: by TLS requests without acknowledging the
    /// responses.
    pub(crate) fn is_over_limit(&self) -> bool {
        self.size > self.limit
    }

    pub(crate) fn add_received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// Adds `frame`, which holds `bytes` of DATA.
    pub(crate) fn add_sent(&mut self, bytes: usize, frame: &Bytes) {
        self.sent += bytes as u64;
        if self.keeps {
            self.size += frame.len() + FRAME_OVERHEAD;
            self.kept.push_back((self.sent, frame.clone()));
            self.settle();
        }
    }

    /// Drops the frames within the first `count` bytes, which the peer has received.
    pub(crate) fn acknowledge(&mut self, count: u64) -> Result<(), InvalidCount> {
        if count < self.acknowledged {
            return Err(InvalidCount::BelowAcknowledged);
        }
        if count > self.sent {
            return Err(InvalidCount::AboveSent);
        }
        let boundary = count == self.acknowledged
            || count == self.sent
            || self
                .kept
                .binary_search_by_key(&count, |&(end, _)| end)
                .is_ok();
        if self.keeps && !boundary {
            return Err(InvalidCount::WithinMessage);
        }
        self.acknowledged = count;
        while let Some((end, frame)) = self.kept.front() {
            if *end > count {
                break;
            }
            self.size -= frame.len() + FRAME_OVERHEAD;
            self.kept.pop_front();
        }
        self.settle();
        if self.kept.is_empty() && self.kept.capacity() > 16 {
            self.kept = VecDeque::new();
        }
        Ok(())
    }

    /// Frames that a new link must send again, in order.
    pub(crate) fn unacknowledged(&self) -> impl Iterator<Item = Bytes> {
        self.kept.iter().map(|(_, frame)| frame.clone())
    }

    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.size, self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(bytes: usize) -> Bytes {
        Bytes::from(vec![0; bytes + 9])
    }

    /// 100, 200 and 300 bytes sent, the first frame acknowledged.
    fn retransmit() -> RetransmitBuffer {
        let mut retransmit = RetransmitBuffer::new(1 << 20, &MemoryBudget::default());
        for bytes in [100, 200, 300] {
            retransmit.add_sent(bytes, &frame(bytes));
        }
        retransmit.acknowledge(100).unwrap();
        retransmit
    }

    #[test]
    fn acknowledged_frames_are_dropped_and_the_rest_kept_in_order() {
        let mut retransmit = retransmit();
        let kept = |retransmit: &RetransmitBuffer| {
            retransmit
                .unacknowledged()
                .map(|f| f.len())
                .collect::<Vec<_>>()
        };
        assert_eq!(kept(&retransmit), [209, 309]);
        assert_eq!(retransmit.flight(), 500);
        retransmit.acknowledge(600).unwrap();
        assert_eq!(
            (kept(&retransmit), retransmit.size().0, retransmit.flight()),
            (vec![], 0, 0)
        );
    }

    #[test]
    fn invalid_counts_are_refused_and_change_nothing() {
        for (count, wrong) in [
            (0, InvalidCount::BelowAcknowledged),
            (99, InvalidCount::BelowAcknowledged),
            (101, InvalidCount::WithinMessage),
            (299, InvalidCount::WithinMessage),
            (599, InvalidCount::WithinMessage),
            (601, InvalidCount::AboveSent),
            (u64::MAX, InvalidCount::AboveSent),
        ] {
            let mut retransmit = retransmit();
            let before = retransmit.size();
            assert_eq!(retransmit.acknowledge(count), Err(wrong), "{count}");
            assert_eq!((retransmit.size(), retransmit.flight()), (before, 500));
        }
        for count in [100, 300, 600] {
            assert_eq!(retransmit().acknowledge(count), Ok(()));
        }
    }

    #[test]
    fn capacity_ends_when_the_next_message_might_not_fit() {
        let mut retransmit = RetransmitBuffer::new(256 * 1024, &MemoryBudget::default());
        while retransmit.room() > 0 {
            retransmit.add_sent(MAX_MESSAGE_BYTES - 1, &frame(MAX_MESSAGE_BYTES - 1));
            assert!(retransmit.size().0 <= retransmit.size().1);
        }
        assert!(!retransmit.is_over_limit());
        let sent = retransmit.sent();
        retransmit
            .acknowledge(MAX_MESSAGE_BYTES as u64 - 1)
            .unwrap();
        assert!(retransmit.room() > 0);
        retransmit.acknowledge(sent).unwrap();
        assert_eq!(retransmit.size().0, 0);
    }

    fn fill(retransmit: &mut RetransmitBuffer) {
        while retransmit.room() > 0 {
            retransmit.add_sent(MAX_MESSAGE_BYTES, &frame(MAX_MESSAGE_BYTES));
        }
    }

    #[test]
    fn sessions_share_the_memory_budget_beyond_their_own_share() {
        let memory = MemoryBudget::of(1024 * 1024);
        let mut greedy = RetransmitBuffer::new(8 << 20, &memory);
        fill(&mut greedy);
        let kept = greedy.size().0;
        assert!(kept > OWN_BYTES + 900 * 1024 && kept <= OWN_BYTES + memory.limit());
        assert!(memory.used() <= memory.limit());

        let mut modest = RetransmitBuffer::new(8 << 20, &memory);
        fill(&mut modest);
        let own = modest.size().0;
        assert!(
            own > OWN_BYTES / 2 && own <= OWN_BYTES,
            "{own}: its own, and no more"
        );
        modest.acknowledge(modest.sent()).unwrap();
        assert!(modest.room_for_bulk(), "it goes on with that");

        drop(greedy);
        assert_eq!(memory.used(), 0);
        fill(&mut modest);
        assert!(
            modest.size().0 > OWN_BYTES + 900 * 1024,
            "the released part is available to it"
        );
        modest.disable();
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn a_session_that_cannot_be_resumed_keeps_nothing() {
        let mut retransmit = RetransmitBuffer::new(0, &MemoryBudget::default());
        retransmit.disable();
        for _ in 0..1000 {
            retransmit.add_sent(16_000, &frame(16_000));
        }
        assert_eq!(retransmit.size().0, 0);
        assert!(retransmit.room() > 0);
        assert_eq!(retransmit.acknowledge(12_345), Ok(()));
    }
}
