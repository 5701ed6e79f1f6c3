//! Times and spans in messages and logs: one form for all of them.

use std::time::Duration;

use time::{OffsetDateTime, UtcOffset, format_description::well_known::Rfc3339};

/// RFC 3339, UTC, whole seconds: `2026-11-23T08:15:00Z`.
#[must_use]
pub fn timestamp(at: OffsetDateTime) -> String {
    let whole = at.to_offset(UtcOffset::UTC).replace_nanosecond(0);
    let text = whole.ok().and_then(|at| at.format(&Rfc3339).ok());
    text.unwrap_or_else(|| at.to_string())
}

/// The two largest units: `45s`, `12m 30s`, `3h 5m`, `2d 4h`.
#[must_use]
pub fn span(time: Duration) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let mut seconds = time.as_secs();
    let mut parts = Vec::new();
    for (size, unit) in UNITS {
        if seconds >= size && parts.len() < 2 {
            parts.push(format!("{}{unit}", seconds / size));
            seconds %= size;
        } else if !parts.is_empty() {
            break;
        }
    }
    match parts.is_empty() {
        true => "0s".to_owned(),
        false => parts.join(" "),
    }
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

    #[test]
    fn spans_have_two_units_at_most() {
        for (seconds, text) in [
            (0, "0s"),
            (45, "45s"),
            (750, "12m 30s"),
            (3600, "1h"),
            (11_100, "3h 5m"),
            (86_401, "1d"),
            (187_200, "2d 4h"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
    }
}
