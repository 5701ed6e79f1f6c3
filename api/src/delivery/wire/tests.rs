use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

const RUN: &str = "run-01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// The value as a type, and as JSON again.
#[track_caller]
fn round_trip<T: Serialize + DeserializeOwned>(value: &Value) -> T {
    let parsed: T = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&parsed).unwrap(), *value);
    parsed
}

#[test]
fn claimed_run_has_short_json() {
    let mut value = json!({
        "run": RUN, "bundle": "b-shop", "kind": "sync", "attempt": 1, "leaseSeconds": 60,
        "generation": 8, "createdBy": "anna", "logOffset": 0,
    });
    let claimed: ClaimedRun = round_trip(&value);
    assert!(!claimed.confirm);
    value["confirm"] = json!(true);
    value["spec"] = json!(format!("sha256:{}", "ab".repeat(32)));
    assert!(round_trip::<ClaimedRun>(&value).spec.is_some());
    value["later"] = json!("fields of newer hubs are ignored");
    assert!(serde_json::from_value::<ClaimedRun>(value).is_ok());
}

#[test]
fn heartbeat_and_its_answer_are_short() {
    round_trip::<RunHeartbeat>(&json!({"attempt": 1}));
    round_trip::<RunHeartbeat>(&json!({"attempt": 1, "step": "apply 12/40"}));
    round_trip::<RunLeaseStatus>(&json!({"leaseSeconds": 60}));
    let hard: RunLeaseStatus = round_trip(&json!({"leaseSeconds": 41, "cancel": "hard"}));
    assert_eq!(hard.cancel, Some(CancelMode::Hard));
}

#[test]
fn outcome_of_a_diff_lists_objects_with_fields() {
    round_trip::<RunOutcome>(&json!({"attempt": 2, "outcome": "Succeeded", "logBytes": 0}));
    let value = json!({
        "attempt": 1, "outcome": "Failed", "sentence": "Deployment shop/web: forbidden",
        "code": "FL-6201", "logBytes": 4711,
        "diff": {"objects": [
            {"object": "Deployment shop/web", "change": "update", "fields": [
                {"path": ".spec.replicas", "from": 1, "to": 3},
                {"path": ".metadata.labels.tier", "to": "front"},
            ]},
            {"object": "ConfigMap shop/old", "change": "delete"},
        ], "unchanged": 7},
    });
    let outcome: RunOutcome = round_trip(&value);
    assert!(!outcome.diff.unwrap().is_empty());
    let none: RunDiff = round_trip(&json!({"unchanged": 9}));
    assert!(none.is_empty());
}

#[test]
fn agent_names_cause_and_start_of_its_run() {
    let run: AgentRun = round_trip(&json!({
        "bundle": "b-shop", "kind": "sync", "origin": "drift", "generation": 8, "attempt": 1,
        "startedAt": "2026-11-24T12:00:00Z",
    }));
    assert_eq!(run.origin, RunOrigin::Drift);
    assert_eq!(
        run_path(&RUN.parse().unwrap()),
        format!("/agent/v1/runs/{RUN}")
    );
}
