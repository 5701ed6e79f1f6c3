mod workloads;

use serde_json::json;

use super::*;

fn judge(api_version: &str, kind: &str, rest: Value) -> (HealthState, String) {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": "a", "namespace": "shop", "generation": 2},
    });
    json_patch::merge(&mut object, &rest);
    let health = health(&object, &|class| class == Some("late"));
    let reason = health
        .reason
        .strip_prefix(&format!("{kind} shop/a "))
        .unwrap_or_default();
    assert_eq!(
        reason.is_empty(),
        health.state == HealthState::Ready,
        "{}",
        health.reason
    );
    (health.state, reason.to_owned())
}

/// Checks rows of a state, a sentence without its object, and fields of the object.
fn table(api_version: &str, kind: &str, rows: &[(HealthState, &str, Value)]) {
    for (state, reason, rest) in rows {
        let actual = judge(api_version, kind, rest.clone());
        assert_eq!(
            (actual.0, actual.1.as_str()),
            (*state, *reason),
            "{kind} {rest}"
        );
    }
}

use HealthState::{Failed, Progressing, Ready, Terminating};

#[test]
fn pods_and_jobs() {
    let waiting = |reason: &str| {
        json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}],
        "containerStatuses": [{"name": "web", "state": {"waiting": {"reason": reason, "message": "back-off"}}}]}})
    };
    table(
        "v1",
        "Pod",
        &[
            (Progressing, "is pending", json!({})),
            (Ready, "", json!({"status": {"phase": "Succeeded"}})),
            (
                Failed,
                "failed: Evicted",
                json!({"status": {"phase": "Failed", "reason": "Evicted"}}),
            ),
            (Failed, "failed", json!({"status": {"phase": "Failed"}})),
            (
                Ready,
                "",
                json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}),
            ),
            (
                Failed,
                "has container web in CrashLoopBackOff: back-off",
                waiting("CrashLoopBackOff"),
            ),
            (
                Progressing,
                "is not ready: ContainersNotReady",
                waiting("ContainerCreating"),
            ),
            (
                Progressing,
                "is not scheduled: 0/3 nodes",
                json!({"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]}}),
            ),
        ],
    );
    table(
        "batch/v1",
        "Job",
        &[
            (Progressing, "has not started", json!({})),
            (
                Ready,
                "",
                json!({"status": {"startTime": "2026-01-01T00:00:00Z", "active": 1}}),
            ),
            (
                Ready,
                "",
                json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}),
            ),
            (
                Ready,
                "",
                json!({"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}),
            ),
            (
                Failed,
                "failed: BackoffLimitExceeded",
                json!({"status": {"startTime": "x", "conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}}),
            ),
        ],
    );
    table("batch/v1", "CronJob", &[(Ready, "", json!({}))]);
}

#[test]
fn other_kinds() {
    table(
        "v1",
        "Service",
        &[
            (Ready, "", json!({})),
            (
                Ready,
                "",
                json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1"}}),
            ),
            (
                Progressing,
                "has no cluster IP",
                json!({"spec": {"type": "LoadBalancer"}}),
            ),
        ],
    );
}

#[test]
fn volume_claims_namespaces_and_budgets() {
    table(
        "v1",
        "PersistentVolumeClaim",
        &[
            (Progressing, "is not bound to a volume", json!({})),
            (
                Progressing,
                "is not bound to a volume",
                json!({"spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"}}),
            ),
            (
                Ready,
                "",
                json!({"spec": {"storageClassName": "late"}, "status": {"phase": "Pending"}}),
            ),
            (Ready, "", json!({"status": {"phase": "Bound"}})),
            (
                Failed,
                "lost its volume",
                json!({"spec": {"storageClassName": "late"}, "status": {"phase": "Lost"}}),
            ),
        ],
    );
    table(
        "v1",
        "Namespace",
        &[
            (Progressing, "is not active", json!({})),
            (Ready, "", json!({"status": {"phase": "Active"}})),
        ],
    );
    table(
        "policy/v1",
        "PodDisruptionBudget",
        &[
            (
                Progressing,
                "has not been observed by its controller",
                json!({}),
            ),
            (
                Progressing,
                "has 1 of 2 pods healthy",
                json!({"status": {"currentHealthy": 1, "desiredHealthy": 2}}),
            ),
            (
                Ready,
                "",
                json!({"status": {"currentHealthy": 2, "desiredHealthy": 2}}),
            ),
        ],
    );
}

#[test]
fn definitions_and_api_services() {
    let conditions = |list: Value| json!({"status": {"conditions": list}});
    table(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &[
            (Progressing, "is not established", json!({})),
            (
                Ready,
                "",
                conditions(
                    json!([{"type": "Established", "status": "True"}, {"type": "NamesAccepted", "status": "True"}]),
                ),
            ),
            (
                Failed,
                "has names that are taken: conflict",
                conditions(
                    json!([{"type": "NamesAccepted", "status": "False", "message": "conflict"}]),
                ),
            ),
            (
                Progressing,
                "is not established",
                conditions(
                    json!([{"type": "Established", "status": "False", "reason": "Installing"}]),
                ),
            ),
            (
                Failed,
                "is not established: Broken",
                conditions(json!([{"type": "Established", "status": "False", "reason": "Broken"}])),
            ),
        ],
    );
    table(
        "apiregistration.k8s.io/v1",
        "APIService",
        &[
            (Progressing, "is not available", json!({})),
            (
                Progressing,
                "is not available: no endpoints",
                conditions(
                    json!([{"type": "Available", "status": "False", "message": "no endpoints"}]),
                ),
            ),
            (
                Ready,
                "",
                conditions(json!([{"type": "Available", "status": "True"}])),
            ),
        ],
    );
    table("v1", "ConfigMap", &[(Ready, "", json!({}))]);
}

#[test]
fn custom_kinds() {
    let condition = |kind: &str, status: &str| json!({"status": {"conditions": [{"type": kind, "status": status, "reason": "R"}]}});
    table(
        "example.org/v1",
        "Thing",
        &[
            (Ready, "", json!({})),
            (Ready, "", json!({"status": {"observedGeneration": 2}})),
            (Ready, "", condition("Ready", "True")),
            (Progressing, "is not ready: R", condition("Ready", "False")),
            (
                Progressing,
                "is not ready: R",
                condition("Ready", "Unknown"),
            ),
            (
                Progressing,
                "is reconciling: R",
                condition("Reconciling", "True"),
            ),
            (Failed, "is stalled: R", condition("Stalled", "True")),
            (Ready, "", condition("Stalled", "False")),
            (
                Progressing,
                "has generation 2, and its controller has observed 1",
                json!({"status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]}}),
            ),
            (
                Terminating,
                "is being deleted",
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            ),
            (
                Terminating,
                "is being deleted and waits for a/b, c/d",
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b", "c/d"]}}),
            ),
            (
                Ready,
                "",
                json!({"metadata": {"annotations": {"fairlead/health": "ignore"}}, "status": {"conditions": [{"type": "Stalled", "status": "True"}]}}),
            ),
        ],
    );
}

#[test]
fn worst_object_speaks_for_the_set() {
    let health = |state, reason: &str| Health {
        state,
        reason: reason.to_owned(),
    };
    let summary = HealthSummary::of([
        Health::READY,
        health(Progressing, "a"),
        health(Failed, "b"),
        health(Failed, "c"),
        health(Terminating, "d"),
    ]);
    assert_eq!((summary.total, summary.ready), (5, 1));
    assert_eq!(summary.worst, health(Failed, "b"));
    assert_eq!(HealthSummary::of([]).worst, Health::READY);
}

#[test]
fn long_messages_are_cut() {
    let message = "ä".repeat(400);
    let (_, reason) = judge(
        "example.org/v1",
        "Thing",
        json!({"status": {"conditions": [{"type": "Ready", "status": "False", "message": message}]}}),
    );
    assert_eq!(reason.chars().count(), "is not ready: ".len() + 301);
}
