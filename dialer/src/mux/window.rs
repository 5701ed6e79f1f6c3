//! What a peer may send on one stream, and the budget that all windows of a session share. A window starts at yamux'
//! fixed 256 KiB, grows to 1 MiB while its reader keeps up, and shrinks again when the stream goes quiet.

use std::time::Duration;

use tokio::time::Instant;

use crate::reserve::{Part, Reserve};

/// What either side may send on a new stream, in bytes.
pub(crate) const INITIAL: u32 = 256 * 1024;
pub(super) const LARGEST: u32 = 1024 * 1024;
/// A reader that takes less than this for half a window keeps up with the sender: the window is what holds it back.
const FAST: Duration = Duration::from_millis(20);
/// One that takes longer than this needs no large window.
const SLOW: Duration = Duration::from_secs(1);

/// What a peer can make us hold beside the first window of each open stream: what windows have grown by, and what is
/// unread of streams that are over.
pub(super) struct Budget {
    committed: usize,
    most: usize,
    part: Part,
}

impl Budget {
    pub(super) fn new(most: usize, reserve: &Reserve) -> Self {
        Budget {
            committed: 0,
            most,
            part: reserve.part(),
        }
    }

    fn allows(&self, bytes: usize) -> bool {
        self.committed.saturating_add(bytes) <= self.most && self.part.allows(bytes)
    }

    /// Whether it is kept, or overdrawn by no more than `streams` windows that nobody uses.
    pub(super) fn kept(&self, streams: usize) -> bool {
        self.committed
            <= self
                .most
                .saturating_add(streams.saturating_mul(INITIAL as usize))
    }

    pub(super) fn commit(&mut self, bytes: usize) {
        self.committed = self.committed.saturating_add(bytes);
        self.part.force(bytes);
    }

    pub(super) fn release(&mut self, bytes: usize) {
        self.committed = self.committed.saturating_sub(bytes);
        self.part.give_back(bytes);
    }
}

/// Always: unread + `credit` + `consumed` = `size`.
pub(super) struct Window {
    /// What the peer may send now.
    credit: u32,
    size: u32,
    /// Read since the last update.
    consumed: u32,
    updated: Option<Instant>,
}

impl Window {
    pub(super) fn new() -> Self {
        Window {
            credit: INITIAL,
            size: INITIAL,
            consumed: 0,
            updated: None,
        }
    }

    /// What of the budget it takes.
    pub(super) fn grown(&self) -> usize {
        self.size.saturating_sub(INITIAL) as usize
    }

    /// Data has come; the error is how much was left.
    pub(super) fn arrived(&mut self, length: u32) -> Result<(), u32> {
        self.credit = self.credit.checked_sub(length).ok_or(self.credit)?;
        Ok(())
    }

    /// Data was read. The answer is what to grant the peer, when it is time to: at half a window.
    pub(super) fn consumed(&mut self, length: usize, budget: &mut Budget) -> Option<u32> {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.consumed = self.consumed.saturating_add(length);
        if self.consumed < self.size / 2 {
            return None;
        }
        let mut grant = std::mem::take(&mut self.consumed);
        let now = Instant::now();
        match self.updated.replace(now).map(|before| now - before) {
            Some(took) if took < FAST => {
                let more = self.size.min(LARGEST.saturating_sub(self.size));
                if budget.allows(more as usize) {
                    budget.commit(more as usize);
                    self.size += more;
                    grant += more;
                }
            }
            Some(took) if took > SLOW => {
                // At least half of the window was read, so what is taken back has not been granted yet.
                let less = (self.size / 2)
                    .min(self.size.saturating_sub(INITIAL))
                    .min(grant);
                budget.release(less as usize);
                self.size -= less;
                grant -= less;
            }
            _ => {}
        }
        self.credit = self.credit.saturating_add(grant);
        (grant > 0).then_some(grant)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const KIB: u32 = 1024;

    /// The peer sends `bytes`, all are read; what it is granted.
    fn pass(window: &mut Window, bytes: u32, budget: &mut Budget) -> Option<u32> {
        window.arrived(bytes).unwrap();
        window.consumed(bytes as usize, budget)
    }

    #[tokio::test(start_paused = true)]
    async fn an_update_comes_at_half_a_window() {
        let mut budget = Budget::new(0, &Reserve::default());
        let mut window = Window::new();
        assert_eq!(pass(&mut window, 100 * KIB, &mut budget), None);
        assert_eq!(pass(&mut window, 28 * KIB, &mut budget), Some(128 * KIB));
        assert_eq!(window.credit, 256 * KIB);
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_grows_to_a_mebibyte_under_a_fast_reader_and_within_the_budget() {
        let mut budget = Budget::new(768 * KIB as usize, &Reserve::default());
        let mut window = Window::new();
        let mut granted = Vec::new();
        for _ in 0..4 {
            let half = window.size / 2;
            granted.push(pass(&mut window, half, &mut budget).unwrap() / KIB);
            advance(Duration::from_millis(5)).await;
        }
        assert_eq!(granted, [128, 128 + 256, 256 + 512, 512]);
        assert_eq!((window.size, budget.committed), (LARGEST, window.grown()));

        let mut poor = Window::new();
        for _ in 0..4 {
            pass(&mut poor, 128 * KIB, &mut budget);
        }
        assert_eq!(poor.size, INITIAL);
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_shrinks_under_a_slow_reader_and_gives_its_budget_back() {
        let mut budget = Budget::new(usize::MAX, &Reserve::default());
        let mut window = Window::new();
        for _ in 0..4 {
            let half = window.size / 2;
            pass(&mut window, half, &mut budget);
        }
        assert_eq!(window.size, LARGEST);
        for _ in 0..3 {
            advance(Duration::from_secs(2)).await;
            // Half of it is taken back, the rest was never granted anew.
            let half = window.size / 2;
            pass(&mut window, half, &mut budget);
        }
        assert_eq!((window.size, window.credit), (INITIAL, INITIAL));
        assert_eq!(budget.committed, 0);
    }

    #[test]
    fn one_byte_beyond_the_window_is_too_much() {
        let mut window = Window::new();
        assert_eq!(window.arrived(INITIAL + 1), Err(INITIAL));
        window.arrived(INITIAL).unwrap();
        assert_eq!(window.arrived(1), Err(0));
    }
}
