//! A credential as its source holds it.

use std::path::PathBuf;

use http::HeaderValue;
use time::OffsetDateTime;

use super::endpoint::{Address, Trust};

/// What a source gives when it is read.
pub(super) struct LoadedCredential {
    pub(super) address: Address,
    pub(super) trust: Trust,
    pub(super) authorization: Option<HeaderValue>,
    /// Where it came from; it is read again when one of them changes.
    pub(super) files: Vec<PathBuf>,
    pub(super) expires: Option<OffsetDateTime>,
}
