//! Receive window of a stream, and the budget shared by all windows of a session.
//!
//! A window starts at the fixed 256 KiB of yamux, grows to 1 MiB while its reader keeps up, and
//! shrinks when the stream goes quiet. Over a far path it grows further, to twice the bytes read
//! per round trip. A granted window cannot be taken back, so a stopped reader holds the data in
//! flight and at most as much again.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    limits::INITIAL_WINDOW,
    memory::{MemoryBudget, Reservation},
    path::FAR_RTT,
};

/// Largest window over a near path, in bytes: the cost of one stopped reader.
const MAX_NEAR_WINDOW: u32 = 1024 * 1024;
/// Largest window over a far path, in bytes: as much as the retransmit buffer of a session holds.
pub(super) const MAX_FAR_WINDOW: u32 = 4 * 1024 * 1024;
/// A reader that takes less time than this for half a window is limited by the window.
const FAST_READ_TIME: Duration = Duration::from_millis(20);
/// A reader that takes more time than this needs no large window.
const SLOW_READ_TIME: Duration = Duration::from_secs(1);

/// Bytes that a peer can make this side hold beside the first window of each open stream: window
/// growth, and unread bytes of streams that are over.
pub(super) struct Budget {
    committed: usize,
    most: usize,
    reservation: Reservation,
}

impl Budget {
    pub(super) fn new(most: usize, memory: &MemoryBudget) -> Self {
        Budget {
            committed: 0,
            most,
            reservation: memory.reservation(),
        }
    }

    fn allows(&self, bytes: usize) -> bool {
        self.committed.saturating_add(bytes) <= self.most && self.reservation.allows(bytes)
    }

    /// True if the budget is kept, or exceeded by at most `streams` unused windows.
    pub(super) fn kept(&self, streams: usize) -> bool {
        self.committed
            <= self
                .most
                .saturating_add(streams.saturating_mul(INITIAL_WINDOW as usize))
    }

    pub(super) fn commit(&mut self, bytes: usize) {
        self.committed = self.committed.saturating_add(bytes);
        self.reservation.force(bytes);
    }

    pub(super) fn release(&mut self, bytes: usize) {
        self.committed = self.committed.saturating_sub(bytes);
        self.reservation.release(bytes);
    }
}

/// Invariant: unread + `credit` + `consumed` = `size`.
pub(super) struct Window {
    /// Bytes that the peer may send now.
    credit: u32,
    size: u32,
    /// Bytes read since the last update.
    consumed: u32,
    updated: Option<Instant>,
    /// Bytes read since `updated`, over a far path: for at least a round trip.
    taken: u32,
}

impl Window {
    pub(super) fn new() -> Self {
        Window {
            credit: INITIAL_WINDOW,
            size: INITIAL_WINDOW,
            consumed: 0,
            updated: None,
            taken: 0,
        }
    }

    /// Bytes of the budget in use.
    pub(super) fn grown(&self) -> usize {
        self.size.saturating_sub(INITIAL_WINDOW) as usize
    }

    /// Accounts for received data; the error is the remaining credit.
    pub(super) fn arrived(&mut self, length: u32) -> Result<(), u32> {
        self.credit = self.credit.checked_sub(length).ok_or(self.credit)?;
        Ok(())
    }

    /// Accounts for data read over a path of this round trip, and returns the credit to grant when
    /// it is due. Due at half a window; at an eighth over a far path, where the peer would have to
    /// wait for it.
    pub(super) fn consumed(
        &mut self,
        length: usize,
        round_trip: Duration,
        budget: &mut Budget,
    ) -> Option<u32> {
        let far = round_trip >= FAR_RTT;
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.consumed = self.consumed.saturating_add(length);
        if self.consumed < self.size / if far { 8 } else { 2 } {
            return None;
        }
        let mut grant = std::mem::take(&mut self.consumed);
        let wanted = if far {
            self.wanted_far(grant, round_trip)
        } else {
            self.wanted()
        };
        if wanted > self.size {
            let more = wanted - self.size;
            if budget.allows(more as usize) {
                budget.commit(more as usize);
                self.size += more;
                grant += more;
            }
        } else {
            // Only credit that has not been granted yet can be taken back.
            let less = (self.size - wanted).min(grant);
            budget.release(less as usize);
            self.size -= less;
            grant -= less;
        }
        self.credit = self.credit.saturating_add(grant);
        (grant > 0).then_some(grant)
    }

    /// Target size, by the time it took to read half of it.
    fn wanted(&mut self) -> u32 {
        let now = Instant::now();
        self.taken = 0;
        match self.updated.replace(now).map(|before| now - before) {
            Some(took) if took < FAST_READ_TIME => (self.size * 2).min(MAX_NEAR_WINDOW),
            Some(took) if took > SLOW_READ_TIME => (self.size / 2).max(INITIAL_WINDOW),
            _ => self.size,
        }
    }

    /// Target size, by the bytes read in a round trip.
    fn wanted_far(&mut self, read: u32, round_trip: Duration) -> u32 {
        let now = Instant::now();
        let Some(since) = self.updated else {
            self.updated = Some(now);
            return self.size;
        };
        let took = now - since;
        self.taken = self.taken.saturating_add(read);
        if took < round_trip {
            // Half a window within a round trip: the window is what limits this reader.
            return if self.taken >= self.size / 2 {
                self.size.max(MAX_NEAR_WINDOW)
            } else {
                self.size
            };
        }
        let share = round_trip.as_secs_f64() / took.as_secs_f64();
        let in_one = (f64::from(self.taken) * share) as u32;
        (self.updated, self.taken) = (Some(now), 0);
        let wanted = in_one.saturating_mul(2).min(MAX_FAR_WINDOW);
        match wanted {
            more if more > self.size => more,
            // A short pause of the reader keeps the window.
            less if less < self.size / 4 => (self.size / 2).max(INITIAL_WINDOW),
            _ => self.size,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const BYTES_PER_KIB: u32 = 1024;
    const NEAR_RTT: Duration = Duration::from_micros(200);

    /// Receives and reads `bytes`; returns the granted credit.
    fn pass(window: &mut Window, bytes: u32, budget: &mut Budget) -> Option<u32> {
        window.arrived(bytes).unwrap();
        window.consumed(bytes as usize, NEAR_RTT, budget)
    }

    /// As `pass`, at `rate` bytes per second over a path of `round_trip`: the peer sends its credit
    /// one round trip after the grant.
    async fn flow(window: &mut Window, round_trip: Duration, rate: u32, trips: u32) -> Budget {
        let mut budget = Budget::new(32 << 20, &MemoryBudget::default());
        for _ in 0..trips {
            let path = round_trip.mul_f64(f64::from(rate)).as_secs() as u32;
            let mut left = window.credit.min(path);
            while left > 0 {
                let reservation = left.min(16 * BYTES_PER_KIB);
                left -= reservation;
                window.arrived(reservation).unwrap();
                window.consumed(reservation as usize, round_trip, &mut budget);
                advance(Duration::from_secs_f64(
                    f64::from(reservation) / f64::from(rate),
                ))
                .await;
            }
            let rest = round_trip.mul_f64(1.0 - f64::from(path.min(window.size)) / f64::from(path));
            advance(rest).await;
        }
        budget
    }

    #[tokio::test(start_paused = true)]
    async fn update_is_sent_at_half_a_window() {
        let mut budget = Budget::new(0, &MemoryBudget::default());
        let mut window = Window::new();
        assert_eq!(pass(&mut window, 100 * BYTES_PER_KIB, &mut budget), None);
        assert_eq!(
            pass(&mut window, 28 * BYTES_PER_KIB, &mut budget),
            Some(128 * BYTES_PER_KIB)
        );
        assert_eq!(window.credit, 256 * BYTES_PER_KIB);
    }

    #[tokio::test(start_paused = true)]
    async fn window_of_a_fast_reader_grows_to_a_mebibyte_within_the_budget() {
        let mut budget = Budget::new(768 * BYTES_PER_KIB as usize, &MemoryBudget::default());
        let mut window = Window::new();
        let mut granted = Vec::new();
        for _ in 0..4 {
            let half = window.size / 2;
            granted.push(pass(&mut window, half, &mut budget).unwrap() / BYTES_PER_KIB);
            advance(Duration::from_millis(5)).await;
        }
        assert_eq!(granted, [128, 128 + 256, 256 + 512, 512]);
        assert_eq!(
            (window.size, budget.committed),
            (MAX_NEAR_WINDOW, window.grown())
        );

        let mut poor = Window::new();
        for _ in 0..4 {
            pass(&mut poor, 128 * BYTES_PER_KIB, &mut budget);
        }
        assert_eq!(poor.size, INITIAL_WINDOW);
    }

    #[tokio::test(start_paused = true)]
    async fn window_of_a_slow_reader_shrinks_and_releases_its_budget() {
        let mut budget = Budget::new(usize::MAX, &MemoryBudget::default());
        let mut window = Window::new();
        for _ in 0..4 {
            let half = window.size / 2;
            pass(&mut window, half, &mut budget);
        }
        assert_eq!(window.size, MAX_NEAR_WINDOW);
        for _ in 0..3 {
            advance(Duration::from_secs(2)).await;
            // Half of it is taken back; the rest was never granted again.
            let half = window.size / 2;
            pass(&mut window, half, &mut budget);
        }
        assert_eq!(
            (window.size, window.credit),
            (INITIAL_WINDOW, INITIAL_WINDOW)
        );
        assert_eq!(budget.committed, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn far_window_grows_to_at_most_twice_the_bdp() {
        for (millis, rate) in [(20, 60 << 20), (60, 25 << 20), (150, 8 << 20)] {
            let round_trip = Duration::from_millis(millis);
            let mut window = Window::new();
            let budget = flow(&mut window, round_trip, rate, 12).await;
            let holds = round_trip.as_secs_f64() * f64::from(rate);
            let times = f64::from(window.size) / holds;
            assert!((1.25..=2.1).contains(&times), "{millis} ms: {times}");
            assert_eq!(budget.committed, window.grown());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn far_window_grows_within_the_first_round_trip() {
        let mut window = Window::new();
        flow(&mut window, Duration::from_millis(100), 25_000_000, 1).await;
        assert_eq!(window.size, MAX_NEAR_WINDOW);
    }

    #[tokio::test(start_paused = true)]
    async fn far_window_of_a_slow_path_stays_below_the_near_limit() {
        let mut window = Window::new();
        flow(&mut window, Duration::from_millis(150), 3 << 20, 50).await;
        assert!(window.size <= MAX_NEAR_WINDOW, "{}", window.size);
    }

    #[tokio::test(start_paused = true)]
    async fn window_never_exceeds_the_far_limit() {
        let mut window = Window::new();
        flow(&mut window, Duration::from_millis(300), 100 << 20, 30).await;
        assert_eq!(window.size, MAX_FAR_WINDOW);
    }

    #[tokio::test(start_paused = true)]
    async fn far_reader_that_slows_down_releases_its_budget() {
        let round_trip = Duration::from_millis(150);
        let mut window = Window::new();
        let mut budget = flow(&mut window, round_trip, 16 << 20, 12).await;
        assert!(window.size > 3 << 20);
        for _ in 0..400 {
            advance(round_trip).await;
            let reservation = window.credit.min(32 * BYTES_PER_KIB);
            window.arrived(reservation).unwrap();
            window.consumed(reservation as usize, round_trip, &mut budget);
        }
        assert!(window.size <= INITIAL_WINDOW, "{}", window.size);
        assert_eq!(budget.committed, 0);
    }

    #[test]
    fn byte_beyond_the_window_is_refused() {
        let mut window = Window::new();
        assert_eq!(window.arrived(INITIAL_WINDOW + 1), Err(INITIAL_WINDOW));
        window.arrived(INITIAL_WINDOW).unwrap();
        assert_eq!(window.arrived(1), Err(0));
    }
}
