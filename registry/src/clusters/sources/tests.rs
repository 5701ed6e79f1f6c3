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
