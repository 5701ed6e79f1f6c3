//! `customResourceDefinitions`: names of the installed definitions.

use serde::de::IgnoredAny;

use super::Object;
use crate::facts::{
    bounded::short,
    collector::{CollectedFact, Collector},
    source::CollectorSource,
};

const DEFINITIONS_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MAX_DEFINITIONS: usize = 1000;

#[derive(Default)]
pub(super) struct Definitions {
    names: Vec<String>,
    left_out: usize,
}

impl Collector for Definitions {
    fn sources(&self) -> Vec<CollectorSource> {
        let right = "list customresourcedefinitions.apiextensions.k8s.io";
        vec![CollectorSource::metadata(DEFINITIONS_PATH, "", right)]
    }

    fn take(&mut self, _: usize, object: &[u8]) -> Result<(), serde_json::Error> {
        let Object { metadata } = serde_json::from_slice::<Object<IgnoredAny>>(object)?;
        if self.names.len() < MAX_DEFINITIONS {
            self.names.push(short(&metadata.name));
        } else {
            self.left_out += 1;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<CollectedFact> {
        if self.names.is_empty() {
            return Vec::new();
        }
        vec![CollectedFact {
            name: "customResourceDefinitions".to_owned(),
            value: self.names.into(),
            left_out: self.left_out,
        }]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::facts::collectors::facts_of;

    #[test]
    fn definitions_are_reported_by_name() {
        let definition =
            json!({ "metadata": { "name": "gateways.example.com", "labels": { "a": "b" } } });
        assert_eq!(
            facts_of(Box::new(Definitions::default()), &[(0, definition)]),
            json!({ "customResourceDefinitions": ["gateways.example.com"] })
        );
    }
}
