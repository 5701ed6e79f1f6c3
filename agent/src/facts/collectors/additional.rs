//! Facts of the site operator: each key of the ConfigMap `additional-facts` in the agent's namespace is a fact.
//! A value that is not JSON is a text.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::facts::{
    collector::{CollectedFact, Collector},
    source::CollectorSource,
};

pub(super) struct Additional {
    namespace: String,
    facts: Vec<CollectedFact>,
}

#[derive(Deserialize)]
struct ConfigMap {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

impl Additional {
    pub(super) fn new(namespace: &str) -> Self {
        Additional {
            namespace: namespace.to_owned(),
            facts: Vec::new(),
        }
    }
}

impl Collector for Additional {
    fn sources(&self) -> Vec<CollectorSource> {
        let path = format!(
            "/api/v1/namespaces/{}/configmaps/additional-facts",
            self.namespace
        );
        vec![CollectorSource::object(
            path,
            "get configmaps/additional-facts in the agent's namespace",
        )]
    }

    fn take(&mut self, _: usize, object: &[u8]) -> Result<(), serde_json::Error> {
        let ConfigMap { data } = serde_json::from_slice(object)?;
        let facts = data.into_iter().filter_map(|(name, text)| {
            let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
            // No fact has the value null: in a report, null removes a fact.
            (!value.is_null()).then(|| CollectedFact::whole(&name, value))
        });
        self.facts = facts.collect();
        Ok(())
    }

    fn finish(self: Box<Self>) -> Vec<CollectedFact> {
        self.facts
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::facts::collectors::facts_of;

    #[test]
    fn each_key_is_a_fact_and_json_is_parsed() {
        let map = json!({ "data": {
            "site": "Berlin 3", "racks": "12", "contacts": "[\"ann\"]", "broken": "{", "gone": "null",
        } });
        assert_eq!(
            facts_of(Box::new(Additional::new("fairlead")), &[(0, map)]),
            json!({ "site": "Berlin 3", "racks": 12, "contacts": ["ann"], "broken": "{" })
        );
    }
}
