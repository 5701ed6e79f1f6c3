//! Bodies of requests and responses.

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, combinators::UnsyncBoxBody};

/// Reason for a body that broke off.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;
/// Body in either direction. Trailers pass if the head announces them (`Trailer`, and `TE:
/// trailers` in the request).
pub type Body = UnsyncBoxBody<Bytes, BodyError>;

pub(crate) fn empty() -> Body {
    Body::new(Empty::new().map_err(|never| match never {}))
}
