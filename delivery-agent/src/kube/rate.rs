//! Rate limit of requests: a token bucket that clones of a client share.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// Requests per second in the long run. API servers share their capacity among clients by priority and fairness (KEP-1040); this
/// limit is for those that do not. A lower one makes 500 small bundles wait for it alone.
const REQUESTS_PER_SECOND: u32 = 500;
/// Requests that may start at once after a pause.
const BURST_REQUESTS: u32 = 500;

/// Token bucket: each request waits for its turn.
#[derive(Debug, Clone)]
pub struct RequestRate {
    interval: Duration,
    burst: Duration,
    /// Turn of the next request, as if requests came one by one.
    next: Arc<Mutex<Instant>>,
}

impl Default for RequestRate {
    /// 500 requests per second, and bursts of 500. The API server itself slows a client down by status 429.
    fn default() -> Self {
        Self::new(REQUESTS_PER_SECOND, BURST_REQUESTS)
    }
}

impl RequestRate {
    /// Bucket with this rate and burst, both at least 1.
    #[must_use]
    pub fn new(per_second: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        Self {
            interval,
            burst: interval * burst.max(1),
            next: Arc::new(Mutex::new(Instant::now())),
        }
    }

    /// Waits for the turn of one request.
    pub async fn acquire(&self) {
        sleep_until(self.take(Instant::now())).await;
    }

    /// Lets no request of any clone start for this time; later ones come one by one.
    pub fn pause(&self, time: Duration) {
        let turn = Instant::now() + time + self.burst - self.interval;
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        *next = (*next).max(turn);
    }

    /// Takes a turn, and returns its time.
    fn take(&self, now: Instant) -> Instant {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        // An unused bucket is full, never fuller.
        let turn = (*next).max(now);
        *next = turn + self.interval;
        // A turn within the burst needs no wait.
        turn.checked_sub(self.burst - self.interval).unwrap_or(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn burst_passes_at_once_and_later_requests_in_turn() {
        let rate = RequestRate::new(10, 3);
        let start = Instant::now();
        for _ in 0..3 {
            rate.acquire().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        rate.acquire().await;
        rate.clone().acquire().await;
        let elapsed = start.elapsed();
        assert!((199..=203).contains(&elapsed.as_millis()), "{elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn pause_delays_all_clones_and_a_shorter_one_ends_none() {
        let rate = RequestRate::new(10, 3);
        let start = Instant::now();
        rate.pause(Duration::from_secs(5));
        rate.clone().pause(Duration::from_secs(1));
        rate.acquire().await;
        assert!(start.elapsed() >= Duration::from_secs(5));
        rate.acquire().await;
        assert!(start.elapsed() >= Duration::from_millis(5_100));
    }

    #[tokio::test(start_paused = true)]
    async fn default_rate_has_500_requests_at_once_and_500_per_second() {
        let (rate, start) = (RequestRate::default(), Instant::now());
        for _ in 0..1000 {
            rate.acquire().await;
        }
        let millis = start.elapsed().as_millis();
        assert!((999..=1_010).contains(&millis), "{millis}");
    }
}
