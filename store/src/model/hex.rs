//! Lower-case hexadecimal, and content hashes of values.

use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// Writes bytes as lower-case hexadecimal.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let text = String::with_capacity(bytes.len() * 2);
    bytes.iter().fold(text, |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads exactly `N` bytes; `None` for any other text.
#[must_use]
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let pairs = text.as_bytes().chunks_exact(2);
    if text.len() != N * 2 {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

/// Content hash of a value; equal values have equal hashes.
pub fn hash_of<T: Serialize>(value: &T) -> String {
    // Serialisation of these types cannot fail.
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    let hash = digest(&SHA256, &bytes);
    encode(hash.as_ref().get(..16).unwrap_or_default())
}

pub(super) fn serialize<S: Serializer>(it: &[u8; 32], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&encode(it))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 32], D::Error> {
    let text = String::deserialize(from)?;
    decode(&text).ok_or_else(|| D::Error::custom("it is not 32 bytes in hexadecimal"))
}
