//! Numbers of clusters from shares: wave sizes, `maxUnavailable` and `maxFailures`.

use fairlead_api::delivery::{Share, Wave};

/// `maxUnavailable` of a wave without one.
pub const DEFAULT_MAX_UNAVAILABLE: Share = Share::Percent(25);

/// `maxFailures` of a wave without one.
pub const DEFAULT_MAX_FAILURES: Share = Share::Percent(10);

/// Limits of a wave in clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaveLimits {
    /// Released and not ready clusters at the same time, at least 1.
    pub max_unavailable: u32,
    /// Tolerated failures.
    pub max_failures: u32,
}

impl WaveLimits {
    /// Limits of a wave with this number of participants: clusters connected at least once.
    ///
    /// - `maxUnavailable` rounds up, and is at least 1: 25 % of 390 are 98.
    /// - `maxFailures` rounds down, and a percentage above zero is at least 1: 10 % of 399 are 39.
    /// - A percentage below 100 never tolerates the failure of all participants. The failure of a single canary thus halts.
    /// - A number is taken as it is. `maxFailures: 0` halts at the first failure.
    #[must_use]
    pub fn of(wave: &Wave, participants: u32) -> Self {
        let unavailable = wave.max_unavailable.unwrap_or(DEFAULT_MAX_UNAVAILABLE);
        let failures = wave.max_failures.unwrap_or(DEFAULT_MAX_FAILURES);
        let max_unavailable = match unavailable {
            Share::Count(count) => count,
            Share::Percent(percent) => percent_rounded_up(percent, participants),
        };
        let max_failures = match failures {
            Share::Count(count) => count,
            Share::Percent(0) => 0,
            Share::Percent(100..) => participants,
            Share::Percent(percent) => {
                let floor = u64::from(percent) * u64::from(participants) / 100;
                let floor = u32::try_from(floor).unwrap_or(u32::MAX);
                floor.max(1).min(participants.saturating_sub(1))
            }
        };
        WaveLimits {
            max_unavailable: max_unavailable.max(1),
            max_failures,
        }
    }
}

/// Percentage of a number, rounded up.
pub(crate) fn percent_rounded_up(percent: u8, of: u32) -> u32 {
    let parts = (u64::from(percent) * u64::from(of)).div_ceil(100);
    u32::try_from(parts).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(unavailable: Option<Share>, failures: Option<Share>, of: u32) -> (u32, u32) {
        let wave = Wave {
            max_unavailable: unavailable,
            max_failures: failures,
            ..Wave::default()
        };
        let limits = WaveLimits::of(&wave, of);
        (limits.max_unavailable, limits.max_failures)
    }

    #[test]
    fn default_limits_are_a_quarter_and_a_tenth() {
        for (participants, expected) in [
            (0, (1, 0)),
            (1, (1, 0)),
            (2, (1, 1)),
            (3, (1, 1)),
            (5, (2, 1)),
            (19, (5, 1)),
            (20, (5, 2)),
            (199, (50, 19)),
            (399, (100, 39)),
            (10_000, (2500, 1000)),
        ] {
            assert_eq!(limits(None, None, participants), expected, "{participants}");
        }
    }

    #[test]
    fn explicit_limits_are_taken_as_they_are() {
        let (count, percent) = (Share::Count, Share::Percent);
        for (unavailable, failures, participants, expected) in [
            (count(0), count(0), 10, (1, 0)),
            (count(3), count(4), 1, (3, 4)),
            (percent(0), percent(0), 10, (1, 0)),
            (percent(100), percent(100), 7, (7, 7)),
            (percent(99), percent(99), 7, (7, 6)),
        ] {
            let got = limits(Some(unavailable), Some(failures), participants);
            assert_eq!(got, expected, "{unavailable} {failures} of {participants}");
        }
    }
}
