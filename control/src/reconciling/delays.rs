//! Delays between the tries of a call.

use std::time::Duration;

use fairlead_store::random;

/// First retry delay after a failure; it doubles each time.
const RETRY_DELAY_MIN: Duration = Duration::from_secs(5);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(600);
/// Calls that wait for a rate limit are spread over this time.
pub(crate) const THROTTLE_SPREAD: Duration = Duration::from_secs(30);

/// Delay after this number of failures in a row.
pub(crate) fn retry_delay(misses: u32) -> Duration {
    jittered(RETRY_DELAY_MAX.min(RETRY_DELAY_MIN * (1 << misses.min(8))))
}

/// Delay after a server has requested this wait.
pub(crate) fn throttled_delay(wait: Duration) -> Duration {
    wait + jittered(THROTTLE_SPREAD)
}

/// Jitter: half of the delay at least.
pub(crate) fn jittered(whole: Duration) -> Duration {
    let [share] = random::bytes::<1>().unwrap_or([0]);
    whole / 2 + (whole / 2).mul_f64(f64::from(share) / 255.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_their_limit_and_are_spread() {
        for (misses, whole) in [(1, 10), (3, 40), (8, 600), (80, 600)] {
            let (whole, delay) = (Duration::from_secs(whole), retry_delay(misses));
            assert!(delay >= whole / 2 && delay <= whole, "{misses}: {delay:?}");
        }
        let wait = Duration::from_secs(1800);
        let delay = throttled_delay(wait);
        assert!(
            delay >= wait && delay <= wait + THROTTLE_SPREAD,
            "{delay:?}"
        );
    }
}
