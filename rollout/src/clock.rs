//! Time as a parameter: this crate reads no clock.

use std::{ops::Add, time::Duration};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// Milliseconds since 1970 by the hub's clock.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// Time since `earlier`; zero if it is later.
    #[must_use]
    pub fn since(self, earlier: UnixMillis) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for UnixMillis {
    type Output = UnixMillis;

    /// Saturates at the end of the range.
    fn add(self, span: Duration) -> UnixMillis {
        let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        UnixMillis(self.0.saturating_add(millis))
    }
}

impl From<OffsetDateTime> for UnixMillis {
    /// Times before 1970 become 0.
    fn from(at: OffsetDateTime) -> Self {
        UnixMillis(u64::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or(0))
    }
}

impl From<UnixMillis> for OffsetDateTime {
    /// Times after the year 9999 become 1970.
    fn from(at: UnixMillis) -> Self {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(at.0) * 1_000_000)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_saturate() {
        let end = UnixMillis(u64::MAX);
        assert_eq!(end + Duration::from_secs(1), end);
        assert_eq!(UnixMillis(1).since(UnixMillis(2)), Duration::ZERO);
        let at = UnixMillis(1_795_255_200_123);
        assert_eq!(UnixMillis::from(OffsetDateTime::from(at)), at);
    }
}
