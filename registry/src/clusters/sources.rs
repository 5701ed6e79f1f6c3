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
mod tests {
    use fairlead_certs::Registration;
    use fairlead_store::model::{Binding, Bootstrap};
    use serde_json::json;
    use time::OffsetDateTime;

    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    fn cluster() -> Cluster {
        let at = OffsetDateTime::UNIX_EPOCH;
        let binding = Binding::open(Registration::random().unwrap(), Bootstrap::new(1, at, None));
        let ids = ("c-a".parse().unwrap(), "t-a".parse().unwrap());
        let mut cluster = Cluster::new(ids.0, ids.1, binding, at);
        for (name, source) in [("v", FactSource::Agent), ("own", FactSource::Steward)] {
            let fact = Fact {
                value: json!(1),
                source,
                received: 0,
                observed: 0,
            };
            cluster.dynamic_facts.insert(name.to_owned(), fact);
        }
        cluster
    }

    fn accepted(reported: Option<i64>, now: i64, patch: &Value) -> (Value, Vec<String>) {
        let last = LastReport {
            reported,
            reporting: Reporting::default(),
            now,
        };
        let cluster = cluster();
        let (patch, cluster) = last.accept(patch.as_object().unwrap(), &cluster);
        let left = cluster.dynamic_facts.keys().cloned().collect();
        (Value::Object(patch.into_owned()), left)
    }

    #[test]
    fn steward_cannot_change_a_fresh_agents_facts() {
        let all = vec!["own".to_owned(), "v".to_owned()];
        for (patch, counts) in [
            (
                json!({ "dynamicFacts": { "v": 2, "own": 2 } }),
                json!({ "dynamicFacts": { "own": 2 } }),
            ),
            (
                json!({ "dynamicFacts": { "v": null } }),
                json!({ "dynamicFacts": {} }),
            ),
            (
                json!({ "dynamicFacts": null }),
                json!({ "dynamicFacts": { "own": null } }),
            ),
            (
                json!({ "facts": { "v": "2" } }),
                json!({ "facts": { "v": "2" } }),
            ),
        ] {
            assert_eq!(
                accepted(Some(HOUR_MS), 4 * HOUR_MS, &patch),
                (counts, all.clone()),
                "{patch}"
            );
        }
    }

    #[test]
    fn steward_replaces_imported_facts() {
        let mut cluster = cluster();
        for fact in cluster.dynamic_facts.values_mut() {
            fact.source = FactSource::Import;
        }
        let last = LastReport {
            reported: Some(0),
            reporting: Reporting::default(),
            now: 0,
        };
        let patch = json!({ "dynamicFacts": { "v": 1 } });
        let (patch, cluster) = last.accept(patch.as_object().unwrap(), &cluster);
        assert_eq!(patch["dynamicFacts"], json!({ "v": 1 }));
        assert_eq!(cluster.dynamic_facts.keys().collect::<Vec<_>>(), ["own"]);
    }

    #[test]
    fn steward_takes_over_named_facts_of_a_silent_agent() {
        let both = json!({ "dynamicFacts": { "v": 1, "own": 1 } });
        let (patch, left) = accepted(Some(HOUR_MS), 4 * HOUR_MS + 1, &both);
        assert_eq!((patch, left), (both, vec!["own".to_owned()]));
        let own = json!({ "dynamicFacts": { "own": 1 } });
        let (patch, left) = accepted(None, 4 * HOUR_MS, &own);
        assert_eq!((patch, left.len()), (own, 2));
    }
}
