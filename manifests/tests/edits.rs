//! Edits of applied objects on a real API server are judged as expected.
//!
//! `tests/edits/record.py SERVER TOKEN` writes the records; these are from kube-apiserver 1.37.1.

use std::time::Duration;

use fairlead_manifests::{
    BUNDLE_LABEL,
    drift::{Baseline, Comparison, FieldOwner, Observation, Seen, compare},
};
use serde_json::Value;

const LABEL: (&str, &str) = (BUNDLE_LABEL, "b-shop");

#[test]
fn recorded_edits_are_judged_as_expected() {
    let records: Vec<Value> = serde_json::from_str(include_str!("edits/edits.json")).unwrap();
    assert!(records.len() > 30);
    let owner = FieldOwner::apply("fairlead/b-shop");
    for record in records {
        let name = record["name"].as_str().unwrap();
        let baseline = Baseline::of_answer(&record["answer"], &owner).unwrap();
        let live = &record["live"];
        let long_after = Duration::from_secs(60);
        let observation = match baseline.judge(Seen::Present(live), &owner, LABEL, long_after) {
            Observation::Compare(reason) => format!("{reason:?}"),
            other => format!("{other:?}"),
        };
        assert_eq!(
            observation,
            record["observation"].as_str().unwrap(),
            "{name}"
        );
        let fields: Vec<String> = match compare(live, &record["dryRun"], &owner, &[]) {
            Comparison::Drift(changes) => changes
                .iter()
                .map(|it| {
                    let manager = it.manager.as_deref().unwrap_or_default();
                    let text = format!("{} {:?} {manager} {}", it.path, it.change, it.subresource);
                    text.trim_end().to_owned()
                })
                .collect(),
            Comparison::OwnershipLost => {
                assert_eq!(observation, "Ownership", "{name}");
                Vec::new()
            }
            Comparison::Same => {
                assert!(["Same", "Generation"].contains(&&*observation), "{name}");
                // The answer is a new baseline: the object is not compared again.
                let baseline = Baseline::of_answer(&record["dryRun"], &owner).unwrap();
                let again = baseline.judge(Seen::Present(live), &owner, LABEL, long_after);
                assert_eq!(again, Observation::Same, "{name}");
                Vec::new()
            }
        };
        assert_eq!(Value::from(fields), record["fields"], "{name}");
    }
}
