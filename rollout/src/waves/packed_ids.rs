//! Serde of a list of ids: one text, without prefixes, divided by spaces.

use fairlead_api::ClusterId;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub(crate) fn serialize<S: Serializer>(ids: &[ClusterId], out: S) -> Result<S::Ok, S::Error> {
    let names = ids.iter().map(ClusterId::as_str);
    let names = names.map(|id| id.strip_prefix(ClusterId::PREFIX).unwrap_or(id));
    let mut text = String::with_capacity(16 * ids.len());
    for name in names {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(name);
    }
    text.serialize(out)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ClusterId>, D::Error> {
    let text = String::deserialize(from)?;
    let id = |name: &str| format!("{}{name}", ClusterId::PREFIX).parse();
    let ids = text.split_ascii_whitespace().map(id);
    ids.collect::<Result<_, _>>().map_err(de::Error::custom)
}
