//! `annotations` and `contacts`: annotations of each namespace with the configured name prefixes.

use std::collections::BTreeMap;

use fairlead_api::config::FactCollection;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::facts::{
    bounded::{BoundedEntries, short},
    collector::{CollectedFact, Collector},
    source::CollectorSource,
};

/// Maximum number of annotations of one namespace in a fact.
const MAX_ANNOTATIONS_PER_NAMESPACE: usize = 32;

pub(super) struct Annotations {
    annotations: Chosen,
    contacts: Chosen,
}

struct Chosen {
    prefixes: Vec<String>,
    entries: BoundedEntries,
}

#[derive(Deserialize)]
struct AnnotatedNamespace {
    metadata: AnnotatedMetadata,
}

#[derive(Deserialize)]
struct AnnotatedMetadata {
    name: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Annotations {
    pub(super) fn new(settings: &FactCollection) -> Self {
        let chosen = |prefixes: &[String]| Chosen {
            prefixes: prefixes.to_owned(),
            entries: BoundedEntries::default(),
        };
        Annotations {
            annotations: chosen(&settings.annotation_prefixes),
            contacts: chosen(&settings.contact_prefixes),
        }
    }
}

impl Chosen {
    fn take(&mut self, of: &AnnotatedMetadata) {
        let is_chosen = |key: &&str| {
            let mut prefixes = self.prefixes.iter();
            prefixes.any(|prefix| key.starts_with(prefix.as_str()))
        };
        let found = of.annotations.iter();
        let found = found.map(|(key, value)| (key.as_str(), value));
        let found: Map<String, Value> = found
            .filter(|(key, _)| is_chosen(key))
            .take(MAX_ANNOTATIONS_PER_NAMESPACE)
            .map(|(key, value)| (short(key), short(value).into()))
            .collect();
        if !found.is_empty() {
            self.entries.put(&of.name, found);
        }
    }
}

impl Collector for Annotations {
    fn sources(&self) -> Vec<CollectorSource> {
        if self.annotations.prefixes.is_empty() && self.contacts.prefixes.is_empty() {
            return Vec::new();
        }
        vec![CollectorSource::metadata(
            "/api/v1/namespaces",
            "",
            "list namespaces",
        )]
    }

    fn take(&mut self, _: usize, object: &[u8]) -> Result<(), serde_json::Error> {
        let AnnotatedNamespace { metadata } = serde_json::from_slice(object)?;
        self.annotations.take(&metadata);
        self.contacts.take(&metadata);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<CollectedFact> {
        let annotations = self.annotations.entries.into_fact("annotations");
        let contacts = self.contacts.entries.into_fact("contacts");
        annotations.into_iter().chain(contacts).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::facts::collectors::facts_of;

    #[test]
    fn only_configured_prefixes_are_reported() {
        let settings = FactCollection {
            annotation_prefixes: vec!["example.com/".to_owned()],
            contact_prefixes: vec!["a8r.io/".to_owned()],
            ..FactCollection::default()
        };
        let namespace = json!({ "metadata": { "name": "shop", "annotations": {
            "example.com/tier": "gold", "a8r.io/owner": "@ann", "secret.io/x": "y",
        } } });
        let plain = json!({ "metadata": { "name": "plain" } });
        let namespaces = [(0, namespace), (0, plain)];
        assert_eq!(
            facts_of(Box::new(Annotations::new(&settings)), &namespaces),
            json!({
                "annotations": { "shop": { "example.com/tier": "gold" } },
                "contacts": { "shop": { "a8r.io/owner": "@ann" } },
            })
        );
        let none = FactCollection {
            contact_prefixes: Vec::new(),
            ..FactCollection::default()
        };
        assert!(Annotations::new(&none).sources().is_empty());
    }
}
