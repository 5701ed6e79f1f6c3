//! Small bodies, made of and read into memory. Those of strangers are read with a bound.

use bytes::{Bytes, BytesMut};
use fairlead_dialer::{Body, BodyError};
use http_body_util::{BodyExt, Full};

pub(crate) fn text(text: impl Into<Bytes>) -> Body {
    Full::new(text.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

pub(crate) fn empty() -> Body {
    text(Bytes::new())
}

/// # Errors
/// It broke off, or is longer than `limit` bytes.
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
