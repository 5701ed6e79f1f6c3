//! Send times of a connection's requests: immediate (closed loop), or fixed in advance (open loop). A late
//! answer delays no later send time. A stalled route therefore shows in the latency of every request that was
//! due meanwhile.

use std::time::Duration;

use anyhow::ensure;
use tokio::time::{self, Instant};

/// Lateness of a timer that counts as punctual.
const TIMER_TOLERANCE: Duration = Duration::from_millis(2);

pub(super) enum Pace {
    Closed,
    Open { due: Instant, every: Duration },
}

/// Send times for each of `connections`, evenly spread, so that all together send `rate` requests per second.
///
/// # Errors
/// The clock is too coarse for this rate.
pub(super) fn paces(rate: Option<f64>, connections: usize) -> anyhow::Result<Vec<Pace>> {
    let Some(rate) = rate else {
        return Ok((0..connections).map(|_| Pace::Closed).collect());
    };
    ensure!(rate > 0.0, "a rate is more than 0");
    let step = Duration::try_from_secs_f64(1.0 / rate)?;
    let connections = u32::try_from(connections)?;
    let begin = Instant::now();
    let pace = |number| Pace::Open {
        due: begin + step * number,
        every: step * connections,
    };
    Ok((0..connections).map(pace).collect())
}

impl Pace {
    /// Waits until the next request is due and returns the time from which its latency counts.
    pub(super) async fn next(&mut self) -> Instant {
        match self {
            Self::Closed => Instant::now(),
            Self::Open { due, every } => {
                let (was_due, early) = (*due, Instant::now() < *due);
                *due += *every;
                time::sleep_until(was_due).await;
                let now = Instant::now();
                if early && now < was_due + TIMER_TOLERANCE {
                    now
                } else {
                    was_due
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn connections_share_a_rate_evenly() {
        let begin = Instant::now();
        let mut paces = paces(Some(100.0), 2).unwrap();
        let mut times = Vec::new();
        for _ in 0..2 {
            for pace in &mut paces {
                times.push((pace.next().await - begin).as_millis());
            }
        }
        assert_eq!(times, [0, 10, 20, 30]);
    }

    #[tokio::test(start_paused = true)]
    async fn late_request_counts_from_when_it_was_due() {
        let begin = Instant::now();
        let mut paces = paces(Some(10.0), 1).unwrap();
        let pace = paces.first_mut().unwrap();
        assert_eq!(pace.next().await, begin);
        time::advance(Duration::from_millis(250)).await;
        assert_eq!((pace.next().await - begin).as_millis(), 100);
        assert_eq!((pace.next().await - begin).as_millis(), 200);
        assert_eq!((pace.next().await - begin).as_millis(), 300);
    }

    #[tokio::test]
    async fn zero_rate_is_rejected() {
        assert!(paces(Some(0.0), 1).is_err());
    }
}
