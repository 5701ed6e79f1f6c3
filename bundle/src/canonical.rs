//! Canonical JSON, and names of content by digest.

use aws_lc_rs::digest;
use fairlead_api::delivery::{ArtifactId, Spec, SpecId};
use serde_json::{Map, Value};

/// SHA-256 of bytes.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    finished(digest::digest(&digest::SHA256, bytes))
}

/// Bytes of a SHA-256.
pub(crate) fn finished(digest: digest::Digest) -> [u8; 32] {
    // A SHA-256 has 32 bytes.
    digest.as_ref().try_into().unwrap_or_default()
}

/// JSON without spaces, keys of all maps in the order of their bytes.
#[must_use]
pub fn canonical_json(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write_json(value, &mut out);
    out
}

/// Name of a content by its bytes.
#[must_use]
pub fn content_id(bytes: &[u8]) -> ArtifactId {
    ArtifactId::of_sha256(&sha256(bytes))
}

/// Name of a spec, and its canonical JSON.
#[must_use]
pub fn spec_id(spec: &Spec) -> (SpecId, Vec<u8>) {
    // A spec has text keys only, so its serialization cannot fail.
    let value = serde_json::to_value(spec).unwrap_or_default();
    let json = canonical_json(&value);
    (SpecId::of_sha256(&sha256(&json)), json)
}

/// Appends the canonical JSON of a value.
pub(crate) fn write_json(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            out.push(b'{');
            for (number, (key, value)) in sorted(map).into_iter().enumerate() {
                write_key(number, key, out);
                write_json(value, out);
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                write_json(item, out);
            }
            out.push(b']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            // Writes to memory cannot fail.
            let _ = serde_json::to_writer(out, value);
        }
    }
}

/// Appends a key, with a comma before all but the first.
pub(crate) fn write_key(number: usize, key: &str, out: &mut Vec<u8>) {
    if number > 0 {
        out.push(b',');
    }
    // Writes to memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, key);
    out.push(b':');
}

/// Entries by key. The order of a map itself depends on features of `serde_json`, which other crates switch on.
pub(crate) fn sorted(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_sorted_and_spaces_absent() {
        let value = json!({"b": [1, {"z": null, "a": "x\n\"ä"}], "a": {"b": 1.5, "B": true}});
        let text = String::from_utf8(canonical_json(&value)).unwrap();
        assert_eq!(
            text,
            r#"{"a":{"B":true,"b":1.5},"b":[1,{"a":"x\n\"ä","z":null}]}"#
        );
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
