//! Progress of a run: planned duration of each phase compared with the elapsed time.

use std::time::Duration;

use tokio::time::Instant;

/// Elapsed time from which a run's own speed is used for its forecast.
const MIN_ELAPSED: Duration = Duration::from_secs(120);

pub(super) struct Progress {
    begin: Instant,
    planned: Duration,
    done: Duration,
}

impl Progress {
    /// `planned` is the sum of all durations that will be reported as done.
    pub(super) fn new(planned: Duration) -> Self {
        Self {
            begin: Instant::now(),
            planned,
            done: Duration::ZERO,
        }
    }

    pub(super) fn done(&mut self, planned: Duration) {
        self.done += planned;
    }

    /// Elapsed minutes, and the expected minutes in total.
    pub(super) fn said(&self) -> String {
        let gone = self.begin.elapsed();
        let minutes = |time: Duration| time.as_secs_f64() / 60.0;
        let (gone, all) = (minutes(gone), minutes(self.expected(gone)));
        format!("[{gone:.0} of about {all:.0} min]")
    }

    /// Expected total duration.
    fn expected(&self, gone: Duration) -> Duration {
        let left = self.planned.saturating_sub(self.done);
        let slower = if self.done > MIN_ELAPSED {
            gone.as_secs_f64() / self.done.as_secs_f64()
        } else {
            1.0
        };
        gone + left.mul_f64(slower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn run_that_is_slower_than_planned_expects_to_stay_so() {
        let minute = Duration::from_secs(60);
        let mut progress = Progress::new(60 * minute);
        assert_eq!(progress.said(), "[0 of about 60 min]");
        tokio::time::advance(20 * minute).await;
        progress.done(10 * minute);
        assert_eq!(progress.said(), "[20 of about 120 min]");
        tokio::time::advance(100 * minute).await;
        progress.done(50 * minute);
        assert_eq!(progress.said(), "[120 of about 120 min]");
    }
}
