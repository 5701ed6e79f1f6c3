//! Durations as people write them.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::schema::text_schema;

/// Error of parsing a [`TimeSpan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a time is a number with s, m, h or d behind it, like 30m")]
pub struct TimeSpanError;

/// Units, largest first.
const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)];

/// A duration with a unit: `90s`, `30m`, `8h`, `7d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TimeSpan(pub Duration);

text_schema!(TimeSpan, "^[0-9]+[smhd]$", 20);

impl FromStr for TimeSpan {
    type Err = TimeSpanError;

    fn from_str(text: &str) -> Result<Self, TimeSpanError> {
        let unit = UNITS.iter().find(|(unit, _)| text.ends_with(*unit));
        let &(unit, seconds) = unit.ok_or(TimeSpanError)?;
        let digits = text.strip_suffix(unit).unwrap_or_default();
        let number: u64 = digits.parse().map_err(|_| TimeSpanError)?;
        let seconds = number.checked_mul(seconds).ok_or(TimeSpanError)?;
        Ok(TimeSpan(Duration::from_secs(seconds)))
    }
}

impl fmt::Display for TimeSpan {
    /// The largest unit without a remainder.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let fits = |&&(_, unit): &&(char, u64)| seconds.is_multiple_of(unit) && seconds > 0;
        let &(unit, size) = UNITS.iter().find(fits).unwrap_or(&('s', 1));
        write!(f, "{}{unit}", seconds / size)
    }
}

impl TryFrom<String> for TimeSpan {
    type Error = TimeSpanError;

    fn try_from(text: String) -> Result<Self, TimeSpanError> {
        text.parse()
    }
}

impl From<TimeSpan> for String {
    fn from(span: TimeSpan) -> String {
        span.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_span_keeps_its_largest_unit() {
        for text in ["0s", "90s", "30m", "8h", "7d", "25h"] {
            assert_eq!(text.parse::<TimeSpan>().unwrap().to_string(), text);
        }
        assert_eq!("120s".parse::<TimeSpan>().unwrap().to_string(), "2m");
        for bad in [
            "",
            "m",
            "5",
            "5 m",
            "-5m",
            "5w",
            "99999999999999999999s",
            "300000000000000000d",
            "30",
            "1é",
        ] {
            assert!(bad.parse::<TimeSpan>().is_err(), "{bad:?} must be refused");
        }
    }
}
