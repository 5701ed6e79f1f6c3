//! Bodies made and read in memory.

use bytes::{Bytes, BytesMut};
use fairlead_exchange::Body;
use http_body_util::{BodyExt, Empty, Full};

/// A body without content.
pub(crate) fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A body that is in memory.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// Reads a whole body; `None` if it breaks or is larger than `max` bytes.
pub(crate) async fn read(mut body: Body, max: usize) -> Option<Bytes> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.ok()?.into_data() {
            if whole.len() + data.len() > max {
                return None;
            }
            whole.extend_from_slice(&data);
        }
    }
    Some(whole.freeze())
}
