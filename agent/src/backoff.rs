//! How long to wait before the next try: exponential with full jitter, so that many agents which lost the same hub do
//! not come back in step. Pure; chance is handed in.

use std::time::Duration;

/// The window doubles with each failure from `first` up to `cap`; the wait is anywhere inside of it.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    cap: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, cap: Duration) -> Self {
        Backoff {
            first,
            cap,
            failures: 0,
        }
    }

    /// The next wait. `chance` is in `[0, 1)`.
    pub(crate) fn next(&mut self, chance: f64) -> Duration {
        self.next_over(Duration::ZERO, chance)
    }

    /// The same, anywhere in a window at least `width` wide, from the first try on: the hub asks its agents to spread.
    pub(crate) fn next_over(&mut self, width: Duration, chance: f64) -> Duration {
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        let window = self.first.saturating_mul(factor).min(self.cap).max(width);
        self.failures = self.failures.saturating_add(1);
        window.mul_f64(chance.clamp(0.0, 1.0))
    }

    /// It worked: the next failure waits shortly again.
    pub(crate) const fn reset(&mut self) {
        self.failures = 0;
    }
}

/// A wait that is anywhere between two bounds.
pub(crate) fn between(from: Duration, to: Duration, chance: f64) -> Duration {
    from + to.saturating_sub(from).mul_f64(chance.clamp(0.0, 1.0))
}

/// A number in `[0, 1)` from the machine's own randomness; the middle where it has none.
pub(crate) fn chance() -> f64 {
    getrandom::u32().map_or(0.5, |n| f64::from(n) / (f64::from(u32::MAX) + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(250);
    const CAP: Duration = Duration::from_secs(5);

    #[test]
    fn the_first_try_comes_within_a_quarter_second_and_no_wait_is_longer_than_the_cap() {
        let mut backoff = Backoff::new(FIRST, CAP);
        assert!(backoff.next(0.999_999) <= FIRST);
        for _ in 0..100 {
            assert!(backoff.next(1.0) <= CAP);
        }
        assert_eq!(backoff.next(1.0), CAP);
    }

    #[test]
    fn the_window_doubles_until_the_cap_and_starts_anew_after_a_success() {
        let mut backoff = Backoff::new(FIRST, CAP);
        let waits: Vec<u128> = (0..7).map(|_| backoff.next(1.0).as_millis()).collect();
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 5000, 5000]);
        backoff.reset();
        assert_eq!(backoff.next(1.0), FIRST);
    }

    #[test]
    fn the_wait_is_anywhere_in_the_window() {
        for (chance, wait) in [(0.0, 0), (0.25, 62), (0.5, 125), (0.999, 249)] {
            assert_eq!(Backoff::new(FIRST, CAP).next(chance).as_millis(), wait);
        }
    }

    #[test]
    fn a_hub_may_widen_the_window_but_not_narrow_it() {
        let (wide, narrow) = (Duration::from_secs(60), Duration::from_millis(1));
        let mut backoff = Backoff::new(FIRST, CAP);
        assert_eq!(backoff.next_over(wide, 1.0), wide);
        assert_eq!(backoff.next_over(wide, 0.5), wide / 2);
        assert_eq!(backoff.next_over(narrow, 1.0), 4 * FIRST);
    }

    #[test]
    fn it_goes_on_for_ever_without_overflow() {
        let mut backoff = Backoff {
            first: FIRST,
            cap: Duration::MAX,
            failures: u32::MAX - 1,
        };
        for _ in 0..4 {
            assert!(backoff.next(0.5) > CAP);
        }
    }

    #[test]
    fn chance_stays_in_its_range_and_changes() {
        let drawn: Vec<f64> = (0..64).map(|_| chance()).collect();
        assert!(drawn.iter().all(|c| (0.0..1.0).contains(c)));
        assert!(drawn.windows(2).any(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn between_keeps_its_bounds() {
        let (from, to) = (Duration::from_secs(5), Duration::from_secs(30));
        assert_eq!(between(from, to, 0.0), from);
        assert_eq!(between(from, to, 1.0), to);
        assert_eq!(between(to, from, 0.5), to);
    }
}
