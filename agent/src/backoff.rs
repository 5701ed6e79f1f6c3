//! Delay before the next attempt: exponential with full jitter, so that agents that lost the same hub do not
//! reconnect in step. Pure: the random number is an argument.

use fairlead_runtime::backoff::ExponentialDelay;
use std::time::Duration;

/// Share of an outage that a reconnect may add to it: one fortieth.
const OUTAGE_FRACTION: u32 = 40;
/// Maximum delay of a reconnect after a short outage.
const SHORT_OUTAGE_DELAY: Duration = Duration::from_millis(750);

/// Window that doubles with each failure up to its maximum. A delay is anywhere inside it.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    window: ExponentialDelay,
    /// Sum of the delays since the hub last answered.
    outage: Duration,
}

impl Backoff {
    pub(crate) const fn new(min: Duration, max: Duration) -> Self {
        Backoff {
            window: ExponentialDelay::new(min, max),
            outage: Duration::ZERO,
        }
    }

    /// Next delay. `chance` is in `[0, 1)`.
    pub(crate) fn next(&mut self, chance: f64) -> Duration {
        between(Duration::ZERO, self.window.next_delay(), chance)
    }

    /// Next delay before a dial to a hub. After a short outage agents reconnect soon. The window is at least
    /// `width` wide from the first attempt on, as the hub requests.
    pub(crate) fn next_for_hub(&mut self, width: Duration, chance: f64) -> Duration {
        let soon = (self.outage / OUTAGE_FRACTION).max(SHORT_OUTAGE_DELAY);
        let wait = between(
            Duration::ZERO,
            self.window.next_delay().min(soon).max(width),
            chance,
        );
        self.outage = self.outage.saturating_add(wait);
        wait
    }

    /// Resets the window after a success.
    pub(crate) const fn reset(&mut self) {
        self.window.reset();
        self.outage = Duration::ZERO;
    }
}

/// Delay between two bounds.
pub(crate) fn between(from: Duration, to: Duration, chance: f64) -> Duration {
    from + to.saturating_sub(from).mul_f64(chance.clamp(0.0, 1.0))
}

/// Random number in `[0, 1)` from the operating system; 0.5 without a source of randomness.
pub(crate) fn chance() -> f64 {
    getrandom::u32().map_or(0.5, |n| f64::from(n) / (f64::from(u32::MAX) + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF_MIN: Duration = Duration::from_millis(250);
    const BACKOFF_MAX: Duration = Duration::from_secs(5);

    #[test]
    fn first_delay_is_at_most_the_minimum_and_none_exceeds_the_maximum() {
        let mut backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
        assert!(backoff.next(0.999_999) <= BACKOFF_MIN);
        for _ in 0..100 {
            assert!(backoff.next(1.0) <= BACKOFF_MAX);
        }
        assert_eq!(backoff.next(1.0), BACKOFF_MAX);
    }

    #[test]
    fn window_doubles_to_its_maximum_and_resets_after_a_success() {
        let mut backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
        let waits: Vec<u128> = (0..7).map(|_| backoff.next(1.0).as_millis()).collect();
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 5000, 5000]);
        backoff.reset();
        assert_eq!(backoff.next(1.0), BACKOFF_MIN);
    }

    #[test]
    fn delay_is_anywhere_in_the_window() {
        for (chance, wait) in [(0.0, 0), (0.25, 62), (0.5, 125), (0.999, 249)] {
            assert_eq!(
                Backoff::new(BACKOFF_MIN, BACKOFF_MAX)
                    .next(chance)
                    .as_millis(),
                wait
            );
        }
    }

    #[test]
    fn hub_widens_the_window_but_never_narrows_it() {
        let (wide, narrow) = (Duration::from_secs(60), Duration::from_millis(1));
        let mut backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
        assert_eq!(backoff.next_for_hub(wide, 1.0), wide);
        assert_eq!(backoff.next_for_hub(wide, 0.5), wide / 2);
        backoff.reset();
        assert_eq!(backoff.next_for_hub(narrow, 1.0), BACKOFF_MIN);
    }

    #[test]
    fn reconnect_takes_under_a_second_after_half_a_minute() {
        let mut backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
        let mut waits = Vec::new();
        let mut away = Duration::ZERO;
        while away < 80 * BACKOFF_MAX {
            let wait = backoff.next_for_hub(BACKOFF_MIN, 1.0);
            waits.push((away, wait));
            away += wait;
        }
        for (away, wait) in &waits {
            let most = (*away / 40).max(SHORT_OUTAGE_DELAY).min(BACKOFF_MAX);
            assert!(*wait <= most, "{wait:?} after {away:?}");
        }
        assert_eq!(waits.last().unwrap().1, BACKOFF_MAX);
        backoff.reset();
        assert_eq!(backoff.next_for_hub(BACKOFF_MIN, 1.0), BACKOFF_MIN);
    }

    #[test]
    fn backoff_never_overflows() {
        let mut backoff = Backoff {
            outage: Duration::MAX,
            ..Backoff::new(BACKOFF_MIN, Duration::MAX)
        };
        for _ in 0..64 {
            backoff.next(0.0);
        }
        for _ in 0..4 {
            assert!(backoff.next(0.5) > BACKOFF_MAX);
        }
    }

    #[test]
    fn chance_stays_in_its_range_and_varies() {
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
