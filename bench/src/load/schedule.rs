//! Send times of a connection's requests: immediate (closed loop), or fixed in advance (open loop). A late
//! answer delays no later send time. A stalled route therefore shows in the latency of every request that was
//! due meanwhile.

use std::time::Duration;

use anyhow::ensure;
use tokio::time::{self, Instant};

/// Lateness of a timer that counts as punctual.
const TIMER_TOLERANCE: Duration = Duration::from_millis(2);

pub(super) enum SendSchedule {
    Closed,
    Open { due: Instant, every: Duration },
}

/// Send times for each of `connections`, evenly spread, so that all together send `rate` requests per second.
///
/// # Errors
/// The clock is too coarse for this rate.
pub(super) fn schedules(
    rate: Option<f64>,
    connections: usize,
) -> anyhow::Result<Vec<SendSchedule>> {
    let Some(rate) = rate else {
        return Ok((0..connections).map(|_| SendSchedule::Closed).collect());
    };
    ensure!(rate > 0.0, "a rate is more than 0");
    let step = Duration::try_from_secs_f64(1.0 / rate)?;
    let connections = u32::try_from(connections)?;
    let begin = Instant::now();
    let schedule = |number| SendSchedule::Open {
        due: begin + step * number,
        every: step * connections,
    };
    Ok((0..connections).map(schedule).collect())
}

impl SendSchedule {
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
        let mut schedules = schedules(Some(100.0), 2).unwrap();
        let mut times = Vec::new();
        for _ in 0..2 {
            for schedule in &mut schedules {
                times.push((schedule.next().await - begin).as_millis());
            }
        }
        assert_eq!(times, [0, 10, 20, 30]);
    }

    #[tokio::test(start_paused = true)]
    async fn late_request_counts_from_when_it_was_due() {
        let begin = Instant::now();
        let mut schedules = schedules(Some(10.0), 1).unwrap();
        let schedule = schedules.first_mut().unwrap();
        assert_eq!(schedule.next().await, begin);
        time::advance(Duration::from_millis(250)).await;
        assert_eq!((schedule.next().await - begin).as_millis(), 100);
        assert_eq!((schedule.next().await - begin).as_millis(), 200);
        assert_eq!((schedule.next().await - begin).as_millis(), 300);
    }

    #[tokio::test]
    async fn zero_rate_is_rejected() {
        assert!(schedules(Some(0.0), 1).is_err());
    }
}
