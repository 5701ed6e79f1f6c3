//! One message body: the length of a JSON head in four bytes, the head, and raw bytes behind it.

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Serialize, de::DeserializeOwned};

use crate::refusal::Refusal;

/// Length of the prefix with the length of the head.
pub(crate) const PREFIX_BYTES: usize = 4;

pub(crate) fn encode(head: &impl Serialize, rest: &[u8]) -> Bytes {
    // Every head of this crate can be written as JSON.
    let head = serde_json::to_vec(head).unwrap_or_default();
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + head.len() + rest.len());
    frame.put_u32(u32::try_from(head.len()).unwrap_or(u32::MAX));
    frame.put_slice(&head);
    frame.put_slice(rest);
    frame.freeze()
}

/// Length of the head, by the prefix.
pub(crate) fn head_len(prefix: &[u8]) -> Option<usize> {
    let prefix: [u8; PREFIX_BYTES] = prefix.get(..PREFIX_BYTES)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(prefix)).ok()
}

pub(crate) fn decode<T: DeserializeOwned>(mut frame: Bytes) -> Result<(T, Bytes), Refusal> {
    let short = || Refusal::Invalid("the message is cut off".into());
    let len = head_len(&frame).ok_or_else(short)?;
    let end = PREFIX_BYTES.saturating_add(len);
    if frame.len() < end {
        return Err(short());
    }
    let rest = frame.split_off(end);
    let head = frame.get(PREFIX_BYTES..).unwrap_or_default();
    let head = serde_json::from_slice(head).map_err(|error| Refusal::Invalid(error.to_string()))?;
    Ok((head, rest))
}
