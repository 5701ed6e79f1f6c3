//! Until when a source's word counts: after three of its reports have not come, what it said is shown as stale.

use crate::model::FactSource;

const MINUTE: i64 = 60_000;

/// Milliseconds between two reports of a source, at the most; none of those that say a thing once.
const fn interval(source: FactSource) -> Option<i64> {
    match source {
        // Once an hour, when nothing changes.
        FactSource::Agent => Some(60 * MINUTE),
        FactSource::Steward => Some(MINUTE),
        FactSource::People | FactSource::Inventory | FactSource::Import => None,
    }
}

/// `seen`: when the source last reported, in milliseconds since 1970 as `now`.
pub(crate) fn is_stale(source: FactSource, seen: i64, now: i64) -> bool {
    interval(source).is_some_and(|interval| now.saturating_sub(seen) > 3 * interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_repeated_three_times_is_stale_and_what_people_say_never() {
        let three_hours = 180 * MINUTE;
        assert!(!is_stale(FactSource::Agent, 0, three_hours));
        assert!(is_stale(FactSource::Agent, 0, three_hours + 1));
        assert!(is_stale(FactSource::Steward, 0, 3 * MINUTE + 1));
        assert!(!is_stale(FactSource::People, 0, i64::MAX));
    }
}
