//! Small bodies in memory. Bodies of a peer are read up to a limit.

use bytes::{Bytes, BytesMut};
use fairlead_exchange::{Body, BodyError};
use http_body_util::{BodyExt, Full};

pub(crate) fn text(text: impl Into<Bytes>) -> Body {
    Full::new(text.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

pub(crate) fn empty() -> Body {
    text(Bytes::new())
}

/// Reads a body to its end.
///
/// # Errors
///
/// The body broke off, or exceeds `limit` bytes.
pub(crate) async fn whole(mut body: Body, limit: usize) -> Result<Bytes, BodyError> {
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
