//! Bodies of requests and answers.

use bytes::Bytes;
use fairlead_exchange::Body;
use http_body_util::{BodyExt, Empty, Full};

/// A body without bytes.
#[must_use]
pub fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A body of these bytes.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// A body of this text.
#[must_use]
pub fn text(text: &str) -> Body {
    full(text.to_owned())
}
