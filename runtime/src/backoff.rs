//! Exponential back-off without jitter.

use std::time::Duration;

/// Delays that double from a first one up to a maximum.
#[derive(Debug, Clone)]
pub struct ExponentialDelay {
    first: Duration,
    max: Duration,
    failures: u32,
}

impl ExponentialDelay {
    /// The first delay, and the longest one.
    #[must_use]
    pub const fn new(first: Duration, max: Duration) -> Self {
        ExponentialDelay {
            first,
            max,
            failures: 0,
        }
    }

    /// The delay after one more failure.
    pub fn next_delay(&mut self) -> Duration {
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_add(1);
        self.first.saturating_mul(factor).min(self.max)
    }

    /// Forgets all failures: the next delay is the first one again.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }

    /// Whether there was no failure since the last reset.
    #[must_use]
    pub const fn is_reset(&self) -> bool {
        self.failures == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum_and_begin_again_after_a_reset() {
        let mut delay = ExponentialDelay::new(Duration::from_secs(1), Duration::from_secs(5));
        let seconds = [(); 5].map(|()| delay.next_delay().as_secs());
        assert_eq!(seconds, [1, 2, 4, 5, 5]);
        for _ in 0..100 {
            assert_eq!(delay.next_delay().as_secs(), 5, "no overflow");
        }
        delay.reset();
        assert!(delay.is_reset());
        assert_eq!(delay.next_delay().as_secs(), 1);
    }
}
