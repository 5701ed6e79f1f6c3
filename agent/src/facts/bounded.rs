//! Maps and lists that stay small whatever a cluster holds, and say how much they left out.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::collector::Told;

/// The longest text in a fact, in bytes.
pub(super) const TEXT: usize = 512;

/// A text as it may stand in a fact: cut at [`TEXT`] bytes.
pub(super) fn short(text: &str) -> String {
    let mut end = text.len().min(TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

/// How many of each.
#[derive(Debug)]
pub(super) struct Tally {
    counts: BTreeMap<String, u64>,
    most: usize,
    left_out: usize,
}

impl Tally {
    /// Of `most` different texts at the most.
    pub(super) fn new(most: usize) -> Self {
        Tally {
            counts: BTreeMap::new(),
            most,
            left_out: 0,
        }
    }

    pub(super) fn count(&mut self, text: &str) {
        let text = short(text);
        if self.counts.len() < self.most || self.counts.contains_key(&text) {
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

/// Where each name was found.
#[derive(Debug, Default)]
pub(super) struct Places {
    names: BTreeMap<String, Vec<String>>,
    left_out: usize,
}

/// Names in one fact.
const NAMES: usize = 2000;
/// Places of one name.
const PLACES: usize = 8;

impl Places {
    pub(super) fn add(&mut self, name: &str, place: &str) {
        let name = short(name);
        if !self.names.contains_key(&name) && self.names.len() >= NAMES {
            self.left_out += 1;
            return;
        }
        let places = self.names.entry(name).or_default();
        let place = short(place);
        if places.contains(&place) {
            return;
        }
        if places.len() < PLACES {
            places.push(place);
        } else {
            self.left_out += 1;
        }
    }

    /// The fact, if there is any.
    pub(super) fn told(self, name: &str) -> Option<Told> {
        let names = self.names.into_iter();
        let value: Map<String, Value> = names.map(|(name, places)| (name, places.into())).collect();
        (!value.is_empty()).then(|| Told {
            name: name.to_owned(),
            value: value.into(),
            left_out: self.left_out,
        })
    }
}

/// An object of few keys that grows no further.
#[derive(Debug, Default)]
pub(super) struct Entries {
    entries: Map<String, Value>,
    left_out: usize,
}

/// Entries in one fact.
const ENTRIES: usize = 1000;

impl Entries {
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.entries.get(&short(key))
    }

    pub(super) fn put(&mut self, key: &str, value: impl Into<Value>) {
        let key = short(key);
        if self.entries.len() < ENTRIES || self.entries.contains_key(&key) {
            self.entries.insert(key, value.into());
        } else {
            self.left_out += 1;
        }
    }

    pub(super) fn told(self, name: &str) -> Option<Told> {
        (!self.entries.is_empty()).then(|| Told {
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
    fn a_tally_counts_what_it_knows_and_leaves_out_what_is_new_when_it_is_full() {
        let mut tally = Tally::new(2);
        for text in ["a", "b", "c", "a", "c"] {
            tally.count(text);
        }
        assert_eq!(tally.left_out(), 2);
        assert_eq!(tally.into_value(), json!({ "a": 2, "b": 1 }));
    }

    #[test]
    fn a_name_has_each_place_once_and_only_so_many() {
        let mut places = Places::default();
        for place in 0..PLACES + 3 {
            places.add("host", &format!("ns/{place}"));
            places.add("host", "ns/0");
        }
        let told = places.told("hosts").unwrap();
        assert_eq!(told.left_out, 3);
        assert_eq!(told.value["host"].as_array().unwrap().len(), PLACES);
        assert!(Places::default().told("hosts").is_none());
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let text = format!("{}ä", "a".repeat(TEXT - 1));
        assert_eq!(short(&text), "a".repeat(TEXT - 1));
        assert_eq!(short("ä"), "ä");
    }
}
