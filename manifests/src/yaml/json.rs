//! JSON documents at the start of a file, as `kubectl` detects them.

use std::{fmt, sync::Arc};

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{ManifestError, Place, Problem, scalars};

/// Reads the leading JSON documents of a file. Returns the byte after them: a YAML stream begins there.
///
/// A file is JSON if its first character after white space is `{`. If that fails at the first or second document, the
/// rest is YAML, because a flow map of YAML begins with `{`, too.
pub(super) fn documents(
    file: &Arc<str>,
    text: &str,
    documents: &mut Vec<(Value, Place)>,
) -> Result<usize, ManifestError> {
    if !text.trim_start().starts_with('{') {
        return Ok(0);
    }
    let mut end = 0;
    let mut line = 1;
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Strict>();
    loop {
        let rest = text.get(end..).unwrap_or_default();
        let start = end + (rest.len() - rest.trim_start().len());
        line += lines(text, end, start);
        let place = Place {
            file: file.clone(),
            document: documents.len() + 1,
            line,
        };
        match stream.next() {
            None => return Ok(text.len()),
            Some(Ok(Strict(value))) => {
                documents.push((value, place));
                end = stream.byte_offset();
                line += lines(text, start, end);
            }
            Some(Err(error)) => {
                if let Some(key) = error.to_string().strip_prefix(DUPLICATE) {
                    let key = key.rsplit_once(" at line").map_or(key, |(key, _)| key);
                    let problem = Problem::DuplicateKey(key.to_owned());
                    return Err(ManifestError { place, problem });
                }
                if documents.len() > 1 {
                    let problem = Problem::Syntax(error.to_string());
                    return Err(ManifestError { place, problem });
                }
                // The line break after the document belongs to it.
                return Ok(if documents.is_empty() { 0 } else { start });
            }
        }
    }
}

/// Number of line ends between two bytes.
fn lines(text: &str, start: usize, end: usize) -> usize {
    let text = text.get(start..end).unwrap_or_default();
    text.bytes().filter(|it| *it == b'\n').count()
}

const DUPLICATE: &str = "duplicate key ";

/// A JSON value without duplicate keys, with the numbers of `kubectl`.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        StrictValue.deserialize(deserializer).map(Strict)
    }
}

struct StrictValue;

impl<'de> DeserializeSeed<'de> for StrictValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(scalars::unsigned(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        scalars::float(value).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(StrictValue)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let value = access.next_value_seed(StrictValue)?;
            if map.contains_key(&key) {
                return Err(A::Error::custom(format_args!("{DUPLICATE}{key}")));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
