//! Format of times in messages and logs.

use time::{OffsetDateTime, UtcOffset, format_description::well_known::Rfc3339};

/// Formats a time as RFC 3339 in UTC with whole seconds, like `2026-11-23T08:15:00Z`.
#[must_use]
pub fn timestamp(at: OffsetDateTime) -> String {
    let whole = at.checked_to_offset(UtcOffset::UTC);
    let whole = whole.and_then(|at| at.replace_nanosecond(0).ok());
    let text = whole.and_then(|at| at.format(&Rfc3339).ok());
    text.unwrap_or_else(|| at.to_string())
}

/// Formats seconds since 1970 like [`timestamp`]; `?` for values out of range.
#[must_use]
pub fn unix_timestamp(seconds: u64) -> String {
    let at = i64::try_from(seconds).ok();
    let at = at.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    at.map_or_else(|| "?".to_owned(), timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_seconds_in_utc() {
        let at = OffsetDateTime::from_unix_timestamp_nanos(1_795_255_200_123_456_789).unwrap();
        assert_eq!(timestamp(at), "2026-11-21T10:00:00Z");
        let there = at.to_offset(UtcOffset::from_hms(2, 0, 0).unwrap());
        assert_eq!(timestamp(there), "2026-11-21T10:00:00Z");
    }
}
