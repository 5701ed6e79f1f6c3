//! Detects a burst of new sessions, as after an outage of the hub. Pure: the caller passes the time.

use std::time::Duration;

use tokio::time::Instant;

const BURST_WINDOW: Duration = Duration::from_secs(1);
/// Sessions per window up to which there is no burst.
const BURST_THRESHOLD: u32 = 100;

#[derive(Default)]
pub(super) struct ConnectionBurst {
    /// Start of the current window, and the sessions in it.
    window: Option<(Instant, u32)>,
    /// The window before this one had a burst.
    follows_burst: bool,
}

impl ConnectionBurst {
    /// Counts a session; true if it is part of a burst.
    pub(super) fn count(&mut self, now: Instant) -> bool {
        let (began, count) = match self.window {
            Some((began, count)) if now < began + BURST_WINDOW => (began, count + 1),
            Some((began, count)) => {
                self.follows_burst = count > BURST_THRESHOLD && now < began + 2 * BURST_WINDOW;
                (now, 1)
            }
            None => (now, 1),
        };
        self.window = Some((began, count));
        self.follows_burst || count > BURST_THRESHOLD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of sessions at these times that are part of a burst.
    fn burst_size(times: impl Iterator<Item = u64>) -> usize {
        let begin = Instant::now();
        let mut burst = ConnectionBurst::default();
        let count = |millis| burst.count(begin + Duration::from_millis(millis));
        times.map(count).filter(|burst_size| *burst_size).count()
    }

    #[test]
    fn many_sessions_at_once_are_a_burst() {
        assert_eq!(burst_size((0..1000).map(|_| 0)), 900);
        assert_eq!(burst_size(0..3000), 2900);
    }

    #[test]
    fn single_sessions_are_no_burst() {
        assert_eq!(burst_size((0..1000).map(|n| n * 10)), 0);
        assert_eq!(burst_size(0..50), 0);
    }

    #[test]
    fn session_after_a_burst_is_no_part_of_it() {
        let crowd_and_later = (0..500).chain([1200, 2500, 10_000]);
        assert_eq!(burst_size(crowd_and_later), 400 + 1);
    }
}
