//! Times, and durations in kubectl's format: `30s`, `5m`, `3h12m`, `2d`.

use time::OffsetDateTime;

const SECONDS_PER_MINUTE: i64 = 60;
const SECONDS_PER_HOUR: i64 = 60 * SECONDS_PER_MINUTE;
const SECONDS_PER_DAY: i64 = 24 * SECONDS_PER_HOUR;
const SECONDS_PER_YEAR: i64 = 365 * SECONDS_PER_DAY;

/// Age of a time.
#[must_use]
pub fn age(at: OffsetDateTime) -> String {
    between(at, OffsetDateTime::now_utc())
}

/// Formats a time with whole seconds.
#[must_use]
pub fn time(time: OffsetDateTime) -> String {
    fairlead_api::moment::timestamp(time)
}

/// Duration between two times; zero if they are in the wrong order.
pub(crate) fn between(from: OffsetDateTime, to: OffsetDateTime) -> String {
    human((to - from).whole_seconds().max(0))
}

/// Formats seconds with two units for small values, else one (`k8s.io/apimachinery/pkg/util/duration`).
fn human(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 => pair(seconds, &MINUTE, &SECOND),
        600..10_800 => format!("{}m", seconds / SECONDS_PER_MINUTE),
        10_800..28_800 => pair(seconds, &HOUR, &MINUTE),
        28_800..172_800 => format!("{}h", seconds / SECONDS_PER_HOUR),
        172_800..691_200 => pair(seconds, &DAY, &HOUR),
        691_200..63_072_000 => format!("{}d", seconds / SECONDS_PER_DAY),
        63_072_000..252_288_000 => pair(seconds, &YEAR, &DAY),
        _ => format!("{}y", seconds / SECONDS_PER_YEAR),
    }
}

/// Unit of time with its length in seconds.
struct Unit {
    seconds: i64,
    name: &'static str,
}

const YEAR: Unit = Unit {
    seconds: SECONDS_PER_YEAR,
    name: "y",
};
const DAY: Unit = Unit {
    seconds: SECONDS_PER_DAY,
    name: "d",
};
const HOUR: Unit = Unit {
    seconds: SECONDS_PER_HOUR,
    name: "h",
};
const MINUTE: Unit = Unit {
    seconds: SECONDS_PER_MINUTE,
    name: "m",
};
const SECOND: Unit = Unit {
    seconds: 1,
    name: "s",
};

fn pair(seconds: i64, large: &Unit, small: &Unit) -> String {
    let first = seconds / large.seconds;
    match seconds % large.seconds / small.seconds {
        0 => format!("{first}{}", large.name),
        rest => format!("{first}{}{rest}{}", large.name, small.name),
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
            (3 * SECONDS_PER_HOUR, "3h"),
            (3 * SECONDS_PER_HOUR + 12 * SECONDS_PER_MINUTE, "3h12m"),
            (8 * SECONDS_PER_HOUR, "8h"),
            (47 * SECONDS_PER_HOUR + 59 * SECONDS_PER_MINUTE, "47h"),
            (2 * SECONDS_PER_DAY, "2d"),
            (3 * SECONDS_PER_DAY + 4 * SECONDS_PER_HOUR, "3d4h"),
            (8 * SECONDS_PER_DAY + 4 * SECONDS_PER_HOUR, "8d"),
            (729 * SECONDS_PER_DAY, "729d"),
            (2 * SECONDS_PER_YEAR + 3 * SECONDS_PER_DAY, "2y3d"),
            (8 * SECONDS_PER_YEAR + 3 * SECONDS_PER_DAY, "8y"),
        ] {
            assert_eq!(human(seconds), text, "{seconds}");
        }
        let now = OffsetDateTime::UNIX_EPOCH;
        let later = now + time::Duration::seconds(30);
        assert_eq!(between(now, later), "30s");
        assert_eq!(between(later, now), "0s", "clocks that disagree");
    }
}
