use super::*;

fn available() -> Value {
    json!([{"type": "Available", "status": "True"}, {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}])
}

#[test]
fn deployments() {
    let full = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3, "conditions": available()});
    let with = |patch: Value| {
        let mut status = full.clone();
        json_patch::merge(&mut status, &patch);
        json!({"spec": {"replicas": 3, "progressDeadlineSeconds": 600}, "status": status})
    };
    table(
        "apps/v1",
        "Deployment",
        &[
            (Ready, "", with(json!({}))),
            (Progressing, "has 0 of 1 replicas created", json!({})),
            (
                Progressing,
                "has generation 2, and its controller has observed 1",
                with(json!({"observedGeneration": 1})),
            ),
            (
                Progressing,
                "has 2 of 3 replicas created",
                with(json!({"replicas": 2})),
            ),
            (
                Progressing,
                "has 1 of 3 replicas updated",
                with(json!({"updatedReplicas": 1})),
            ),
            (
                Progressing,
                "has 2 old replicas to end",
                with(json!({"replicas": 5})),
            ),
            (
                Progressing,
                "has 2 of 3 replicas available",
                with(json!({"availableReplicas": 2})),
            ),
            (
                Progressing,
                "has 1 of 3 replicas ready",
                with(json!({"readyReplicas": 1})),
            ),
            (
                Progressing,
                "has no available new replica set",
                with(json!({"conditions": [{"type": "Available", "status": "True"}]})),
            ),
            (
                Progressing,
                "is not available",
                with(
                    json!({"conditions": [{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]}),
                ),
            ),
            (
                Progressing,
                "is not available: too few",
                with(json!({"conditions": [
            {"type": "Available", "status": "False", "message": "too few"},
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]})),
            ),
            (
                Failed,
                "has 1 of 3 replicas ready after its progress deadline: timed out",
                with(json!({"readyReplicas": 1, "conditions": [
            {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"}]})),
            ),
            (
                Progressing,
                "has 0 of 3 replicas created: exceeded quota",
                with(json!({"replicas": 0, "conditions": [
            {"type": "ReplicaFailure", "status": "True", "message": "exceeded\n quota"}]})),
            ),
            (
                Ready,
                "",
                json!({"spec": {"replicas": 0, "progressDeadlineSeconds": 2_147_483_647}, "status": {"observedGeneration": 2, "conditions": [{"type": "Available", "status": "True"}]}}),
            ),
        ],
    );
}

#[test]
fn stateful_sets() {
    let full = json!({"observedGeneration": 2, "replicas": 3, "readyReplicas": 3, "currentReplicas": 3, "updatedReplicas": 3, "currentRevision": "a", "updateRevision": "a"});
    let with = |spec: Value, patch: Value| {
        let mut status = full.clone();
        json_patch::merge(&mut status, &patch);
        let mut object = json!({"spec": {"replicas": 3}, "status": status});
        json_patch::merge(&mut object, &json!({ "spec": spec }));
        object
    };
    let partition = json!({"updateStrategy": {"rollingUpdate": {"partition": 2}}});
    table(
        "apps/v1",
        "StatefulSet",
        &[
            (Ready, "", with(json!({}), json!({}))),
            (Progressing, "has 0 of 1 replicas created", json!({})),
            (
                Ready,
                "",
                json!({"spec": {"updateStrategy": {"type": "OnDelete"}}}),
            ),
            (
                Progressing,
                "has 1 of 3 replicas ready",
                with(json!({}), json!({"readyReplicas": 1})),
            ),
            (
                Progressing,
                "has 1 old replicas to end",
                with(json!({}), json!({"replicas": 4})),
            ),
            (
                Progressing,
                "has 2 of 3 replicas at the current revision",
                with(json!({}), json!({"currentReplicas": 2})),
            ),
            (
                Progressing,
                "has 1 of 3 replicas updated",
                with(
                    json!({}),
                    json!({"updateRevision": "b", "updatedReplicas": 1}),
                ),
            ),
            (
                Ready,
                "",
                with(
                    partition.clone(),
                    json!({"updatedReplicas": 1, "currentReplicas": 2, "updateRevision": "b"}),
                ),
            ),
            (
                Progressing,
                "has 0 of 1 replicas updated",
                with(partition, json!({"updatedReplicas": 0})),
            ),
        ],
    );
}

#[test]
fn daemon_sets() {
    let daemon = |patch: Value| {
        let mut status = json!({"observedGeneration": 2, "desiredNumberScheduled": 4, "currentNumberScheduled": 4, "updatedNumberScheduled": 4, "numberAvailable": 4, "numberReady": 4});
        json_patch::merge(&mut status, &patch);
        json!({ "status": status })
    };
    table(
        "apps/v1",
        "DaemonSet",
        &[
            (Ready, "", daemon(json!({}))),
            (Ready, "", daemon(json!({"desiredNumberScheduled": 0}))),
            (
                Progressing,
                "has not been observed by its controller",
                json!({}),
            ),
            (
                Progressing,
                "has no number of desired pods",
                daemon(json!({"desiredNumberScheduled": null})),
            ),
            (
                Progressing,
                "has 3 of 4 pods scheduled",
                daemon(json!({"currentNumberScheduled": 3})),
            ),
            (
                Progressing,
                "has 2 of 4 pods updated",
                daemon(json!({"updatedNumberScheduled": 2})),
            ),
            (
                Progressing,
                "has 1 of 4 pods available",
                daemon(json!({"numberAvailable": 1})),
            ),
            (
                Progressing,
                "has 0 of 4 pods ready",
                daemon(json!({"numberReady": null})),
            ),
        ],
    );
}

#[test]
fn replica_sets() {
    let set = |patch: Value| {
        let mut status = json!({"observedGeneration": 2, "replicas": 2, "fullyLabeledReplicas": 2, "availableReplicas": 2, "readyReplicas": 2});
        json_patch::merge(&mut status, &patch);
        json!({"spec": {"replicas": 2}, "status": status})
    };
    table(
        "apps/v1",
        "ReplicaSet",
        &[
            (Ready, "", set(json!({}))),
            (Progressing, "has 0 of 1 replicas created", json!({})),
            (
                Progressing,
                "has 1 of 2 replicas created",
                set(json!({"fullyLabeledReplicas": 1})),
            ),
            (
                Progressing,
                "has 1 of 2 replicas available",
                set(json!({"availableReplicas": 1})),
            ),
            (
                Progressing,
                "has 1 of 2 replicas ready",
                set(json!({"readyReplicas": 1})),
            ),
            (
                Progressing,
                "has 3 old replicas to end",
                set(json!({"replicas": 5})),
            ),
            (
                Progressing,
                "cannot make its pods: quota",
                set(
                    json!({"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "quota"}]}),
                ),
            ),
        ],
    );
}
