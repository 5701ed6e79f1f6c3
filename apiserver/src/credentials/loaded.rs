//! Credential as loaded from its source.

use std::path::PathBuf;

use http::HeaderValue;
use time::OffsetDateTime;

use super::endpoint::{ApiServerAddress, Trust};

/// Result of reading a source.
pub(super) struct LoadedCredential {
    pub(super) address: ApiServerAddress,
    pub(super) trust: Trust,
    pub(super) authorization: Option<HeaderValue>,
    /// Files of the source; it is read again when one of them changes.
    pub(super) files: Vec<PathBuf>,
    pub(super) expires: Option<OffsetDateTime>,
}
