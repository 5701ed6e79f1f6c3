//! Whether agents come in a crowd, as they do when their hub was gone. Pure: the time is handed in.

use std::time::Duration;

use tokio::time::Instant;

const WINDOW: Duration = Duration::from_secs(1);
/// So many in a second are no crowd.
const FEW: u32 = 100;

#[derive(Default)]
pub(super) struct Arrivals {
    /// When this window began, and how many came in it.
    window: Option<(Instant, u32)>,
    /// The window right before it was one of a crowd.
    crowded: bool,
}

impl Arrivals {
    /// One more; true if it comes in a crowd.
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

    /// How many of those that come at these times come in a crowd.
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
