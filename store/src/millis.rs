//! Times as the database keeps them.

use time::OffsetDateTime;

use crate::error::{Result, StoreError};

/// Milliseconds since 1970.
pub fn millis(at: OffsetDateTime) -> i64 {
    i64::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

/// Truncates to milliseconds, so that a time reads the same at creation and from the database.
pub fn whole_millis(at: OffsetDateTime) -> OffsetDateTime {
    from_millis(millis(at)).unwrap_or(at)
}

pub(crate) fn from_millis(millis: i64) -> Result<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000)
        .map_err(|_| StoreError::Damaged(millis.to_string()))
}
