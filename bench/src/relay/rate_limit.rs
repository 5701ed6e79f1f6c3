//! A link of a fixed rate. Each piece is sent after the ones before it, in slices of 2 ms.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{self, Instant};

const SLICE_TIME: Duration = Duration::from_millis(2);

pub(super) struct RateLimit {
    rate: Option<u64>,
    /// End of the pieces that are already accepted.
    busy: Mutex<Instant>,
}

impl RateLimit {
    /// Bytes per second; `None` is no limit.
    pub(super) fn new(rate: Option<u64>) -> Self {
        Self {
            rate,
            busy: Mutex::new(Instant::now()),
        }
    }

    /// Bytes of one slice.
    pub(super) fn slice(&self) -> usize {
        let slice = self
            .rate
            .map(|rate| u128::from(rate) * SLICE_TIME.as_micros() / 1_000_000);
        slice.map_or(usize::MAX, |bytes| {
            bytes.max(1).try_into().unwrap_or(usize::MAX)
        })
    }

    /// Waits until this many bytes have passed.
    pub(super) async fn wait(&self, bytes: usize) {
        let Some(rate) = self.rate else { return };
        let takes = Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000) / rate);
        let gone = {
            let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
            *busy = (*busy).max(Instant::now()) + takes;
            *busy
        };
        // A piece that ends within this slice passes at once, since timers are no finer.
        if gone > Instant::now() + SLICE_TIME {
            time::sleep_until(gone - SLICE_TIME).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bytes_pass_at_the_rate_however_many_connections_share_it() {
        let limit = RateLimit::new(Some(1_000_000));
        let begin = Instant::now();
        for _ in 0..50 {
            tokio::join!(limit.wait(1000), limit.wait(1000));
        }
        let took = begin.elapsed();
        assert!((98..=100).contains(&took.as_millis()), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_rate_nothing_waits() {
        let limit = RateLimit::new(None);
        let begin = Instant::now();
        limit.wait(usize::MAX).await;
        assert_eq!(
            (begin.elapsed(), limit.slice()),
            (Duration::ZERO, usize::MAX)
        );
    }
}
