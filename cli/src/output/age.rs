//! Durations in kubectl's format: `30s`, `5m`, `3h12m`, `2d`.

use time::OffsetDateTime;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Duration between two times; zero if they are in the wrong order.
pub(crate) fn between(from: OffsetDateTime, to: OffsetDateTime) -> String {
    human((to - from).whole_seconds().max(0))
}

/// Formats seconds with two units for small values, else one (`k8s.io/apimachinery/pkg/util/duration`).
fn human(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 => pair(seconds, (MINUTE, "m"), (1, "s")),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => pair(seconds, (HOUR, "h"), (MINUTE, "m")),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => pair(seconds, (DAY, "d"), (HOUR, "h")),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => pair(seconds, (YEAR, "y"), (DAY, "d")),
        _ => format!("{}y", seconds / YEAR),
    }
}

fn pair(seconds: i64, large: (i64, &str), small: (i64, &str)) -> String {
    let first = seconds / large.0;
    match seconds % large.0 / small.0 {
        0 => format!("{first}{}", large.1),
        rest => format!("{first}{}{rest}{}", large.1, small.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_those_of_kubectl() {
        for (seconds, text) in [
            (0, "0s"),
            (30, "30s"),
            (119, "119s"),
            (120, "2m"),
            (305, "5m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 12 * MINUTE, "3h12m"),
            (8 * HOUR, "8h"),
            (47 * HOUR + 59 * MINUTE, "47h"),
            (2 * DAY, "2d"),
            (3 * DAY + 4 * HOUR, "3d4h"),
            (8 * DAY + 4 * HOUR, "8d"),
            (729 * DAY, "729d"),
            (2 * YEAR + 3 * DAY, "2y3d"),
            (8 * YEAR + 3 * DAY, "8y"),
        ] {
            assert_eq!(human(seconds), text, "{seconds}");
        }
        let now = OffsetDateTime::UNIX_EPOCH;
        let later = now + time::Duration::seconds(30);
        assert_eq!(between(now, later), "30s");
        assert_eq!(between(later, now), "0s", "clocks that disagree");
    }
}
