//! Maps and lists of bounded size for any cluster. They count the omitted entries.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::collector::CollectedFact;

/// Maximum length of a text in a fact, in bytes.
pub(super) const MAX_TEXT_BYTES: usize = 512;

/// Text for a fact, cut at [`MAX_TEXT_BYTES`].
pub(super) fn short(text: &str) -> String {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

/// Number of occurrences of each text.
#[derive(Debug)]
pub(super) struct BoundedTally {
    counts: BTreeMap<String, u64>,
    limit: usize,
    left_out: usize,
}

impl BoundedTally {
    /// Tally of at most `limit` different texts.
    pub(super) fn new(limit: usize) -> Self {
        BoundedTally {
            counts: BTreeMap::new(),
            limit,
            left_out: 0,
        }
    }

    pub(super) fn count(&mut self, text: &str) {
        let text = short(text);
        if self.counts.len() < self.limit || self.counts.contains_key(&text) {
            *self.counts.entry(text).or_default() += 1;
        } else {
            self.left_out += 1;
        }
    }

    pub(super) fn left_out(&self) -> usize {
        self.left_out
    }

    pub(super) fn into_value(self) -> Value {
        let counts = self.counts.into_iter();
        Value::Object(counts.map(|(text, count)| (text, count.into())).collect())
    }
}

/// Places at which each name was found.
#[derive(Debug, Default)]
pub(super) struct BoundedPlaces {
    names: BTreeMap<String, Vec<String>>,
    left_out: usize,
}

/// Maximum number of names in one fact.
const MAX_NAMES: usize = 2000;
/// Maximum number of places of one name.
const MAX_PLACES_PER_NAME: usize = 8;

impl BoundedPlaces {
    pub(super) fn add(&mut self, name: &str, place: &str) {
        let name = short(name);
        if !self.names.contains_key(&name) && self.names.len() >= MAX_NAMES {
            self.left_out += 1;
            return;
        }
        let places = self.names.entry(name).or_default();
        let place = short(place);
        if places.contains(&place) {
            return;
        }
        if places.len() < MAX_PLACES_PER_NAME {
            places.push(place);
        } else {
            self.left_out += 1;
        }
    }

    /// The fact; None without any name.
    pub(super) fn into_fact(self, name: &str) -> Option<CollectedFact> {
        let names = self.names.into_iter();
        let value: Map<String, Value> = names.map(|(name, places)| (name, places.into())).collect();
        (!value.is_empty()).then(|| CollectedFact {
            name: name.to_owned(),
            value: value.into(),
            left_out: self.left_out,
        })
    }
}

/// JSON object that stops growing at [`MAX_ENTRIES`] keys.
#[derive(Debug, Default)]
pub(super) struct BoundedEntries {
    entries: Map<String, Value>,
    left_out: usize,
}

/// Maximum number of entries in one fact.
const MAX_ENTRIES: usize = 1000;

impl BoundedEntries {
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.entries.get(&short(key))
    }

    pub(super) fn put(&mut self, key: &str, value: impl Into<Value>) {
        let key = short(key);
        if self.entries.len() < MAX_ENTRIES || self.entries.contains_key(&key) {
            self.entries.insert(key, value.into());
        } else {
            self.left_out += 1;
        }
    }

    pub(super) fn into_fact(self, name: &str) -> Option<CollectedFact> {
        (!self.entries.is_empty()).then(|| CollectedFact {
            name: name.to_owned(),
            value: self.entries.into(),
            left_out: self.left_out,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn full_tally_counts_known_texts_and_omits_new_ones() {
        let mut tally = BoundedTally::new(2);
        for text in ["a", "b", "c", "a", "c"] {
            tally.count(text);
        }
        assert_eq!(tally.left_out(), 2);
        assert_eq!(tally.into_value(), json!({ "a": 2, "b": 1 }));
    }

    #[test]
    fn places_of_a_name_are_unique_and_bounded() {
        let mut places = BoundedPlaces::default();
        for place in 0..MAX_PLACES_PER_NAME + 3 {
            places.add("host", &format!("ns/{place}"));
            places.add("host", "ns/0");
        }
        let fact = places.into_fact("hosts").unwrap();
        assert_eq!(fact.left_out, 3);
        assert_eq!(
            fact.value["host"].as_array().unwrap().len(),
            MAX_PLACES_PER_NAME
        );
        assert!(BoundedPlaces::default().into_fact("hosts").is_none());
    }

    #[test]
    fn text_is_cut_between_characters() {
        let text = format!("{}ä", "a".repeat(MAX_TEXT_BYTES - 1));
        assert_eq!(short(&text), "a".repeat(MAX_TEXT_BYTES - 1));
        assert_eq!(short("ä"), "ä");
    }
}
