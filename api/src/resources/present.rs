//! Optional fields of requests: they may be missing, but are never `null`.

use serde::{Deserialize, Deserializer, de::Error};

/// Deserializes the value of an optional field that is not missing.
pub(super) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let value = Option::deserialize(deserializer)?;
    value
        .map(Some)
        .ok_or_else(|| D::Error::custom("an optional field is left out, not null"))
}
