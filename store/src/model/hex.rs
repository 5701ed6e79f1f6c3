//! Lower-case hexadecimal, and content hashes of values.

use aws_lc_rs::digest::{SHA256, digest};
pub use fairlead_api::hex::{decode, encode};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

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
