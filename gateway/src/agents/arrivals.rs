//! Detects a burst of new sessions, as after an outage of the hub. Pure: the caller passes the time.

use std::time::Duration;

use tokio::time::Instant;

const WINDOW: Duration = Duration::from_secs(1);
/// Sessions per window up to which there is no burst.
const FEW: u32 = 100;

#[derive(Default)]
pub(super) struct Arrivals {
    /// Start of the current window, and the sessions in it.
    window: Option<(Instant, u32)>,
    /// The window before this one had a burst.
    crowded: bool,
}

impl Arrivals {
    /// Counts a session; true if it is part of a burst.
    pub(super) fn one(&mut self, now: Instant) -> bool {
        let (began, count) = match self.window {
            Some((began, count)) if now < began + WINDOW => (began, count + 1),
            Some((began, count)) => {
                self.crowded = count > FEW && now < began + 2 * WINDOW;
                (now, 1)
            }
            None => (now, 1),
        };
        self.window = Some((began, count));
        self.crowded || count > FEW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of sessions at these times that are part of a burst.
    fn crowd(times: impl Iterator<Item = u64>) -> usize {
        let begin = Instant::now();
        let mut arrivals = Arrivals::default();
        let one = |millis| arrivals.one(begin + Duration::from_millis(millis));
        times.map(one).filter(|crowd| *crowd).count()
    }

    #[test]
    fn many_at_once_are_a_crowd_but_for_the_first() {
        assert_eq!(crowd((0..1000).map(|_| 0)), 900);
        assert_eq!(crowd(0..3000), 2900);
    }

    #[test]
    fn those_that_come_one_by_one_are_none() {
        assert_eq!(crowd((0..1000).map(|n| n * 10)), 0);
        assert_eq!(crowd(0..50), 0);
    }

    #[test]
    fn whoever_comes_when_a_crowd_has_gone_by_is_none_of_it() {
        let crowd_and_later = (0..500).chain([1200, 2500, 10_000]);
        assert_eq!(crowd(crowd_and_later), 400 + 1);
    }
}
