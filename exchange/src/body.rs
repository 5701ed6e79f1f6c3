//! Bodies of requests and responses.

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Empty, Full, combinators::UnsyncBoxBody};

/// Reason for a body that broke off.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;
/// Body in either direction. Trailers pass if the head announces them (`Trailer`, and `TE:
/// trailers` in the request).
pub type Body = UnsyncBoxBody<Bytes, BodyError>;

/// Body without a byte.
#[must_use]
pub fn empty() -> Body {
    Body::new(Empty::new().map_err(|never| match never {}))
}

/// Body of these bytes.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Body::new(Full::new(bytes.into()).map_err(|never| match never {}))
}

/// Reads a body to its end.
///
/// # Errors
///
/// The body broke off, or exceeds `limit` bytes.
pub async fn read(mut body: Body, limit: usize) -> Result<Bytes, BodyError> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        if whole.len() + data.len() > limit {
            return Err("it is longer than it may be".into());
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}
