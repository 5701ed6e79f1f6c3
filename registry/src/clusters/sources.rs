//! Precedence of facts reported by both Steward and the agent.
//!
//! A fresh fact of the agent wins, and Steward's value is ignored. Once the agent's report is
//! stale, Steward's value is accepted. Otherwise the two would alternate versions. Steward replaces
//! imported facts at once.

use std::borrow::Cow;

use fairlead_store::model::{Cluster, Fact, FactSource};
use serde_json::{Map, Value};

use crate::stale::{Reporting, seen};

const FACTS_FIELD: &str = "dynamicFacts";

/// Time of the agent's last report, and the current time.
#[derive(Clone, Copy)]
pub(super) struct LastReport {
    pub(super) reported: Option<i64>,
    pub(super) reporting: Reporting,
    /// Milliseconds since 1970, like `reported`.
    pub(super) now: i64,
}

impl LastReport {
    /// The accepted part of Steward's patch, and the cluster without facts that Steward may
    /// replace: those of a silent agent or of an import.
    pub(super) fn accept<'a>(
        &self,
        patch: &'a Map<String, Value>,
        cluster: &'a Cluster,
    ) -> (Cow<'a, Map<String, Value>>, Cow<'a, Cluster>) {
        let mut accepted = (Cow::Borrowed(patch), Cow::Borrowed(cluster));
        let Some(values) = patch.get(FACTS_FIELD) else {
            return accepted;
        };
        let is_named = |name: &str| values.get(name).is_some() || values.is_null();
        let others = cluster.dynamic_facts.iter().filter(|(name, fact)| {
            matches!(fact.source, FactSource::Agent | FactSource::Import) && is_named(name)
        });
        for (name, fact) in others {
            if self.is_stale(fact) {
                accepted.1.to_mut().dynamic_facts.remove(name);
                continue;
            }
            let values = accepted.0.to_mut().get_mut(FACTS_FIELD);
            let Some(values) = values else { continue };
            if values.is_null() {
                // `null` removes all facts except these.
                let all = cluster.dynamic_facts.keys();
                *values = all.map(|name| (name.clone(), Value::Null)).collect();
            }
            if let Value::Object(values) = values {
                values.remove(name);
            }
        }
        accepted
    }

    fn is_stale(&self, fact: &Fact) -> bool {
        let seen = seen(fact, self.reported);
        (self.reporting).is_stale(fact.source, seen, self.now)
    }
}

#[cfg(test)]
mod tests;
