//! Health of Deployment, StatefulSet, DaemonSet and ReplicaSet.

use serde_json::Value;

use super::{
    Finding, failed,
    generic::{condition, count, integer, is_true, with_message},
    progressing,
};
use crate::{object::text, sentence::short};

/// Value of `progressDeadlineSeconds` that switches the deadline off.
const NO_DEADLINE: i64 = i32::MAX as i64;

fn replicas(object: &Value) -> i64 {
    integer(object, "/spec/replicas").unwrap_or(1)
}

/// A finding if fewer than `wanted` replicas are in a state.
fn below(object: &Value, wanted: i64, pointer: &str, state: &str) -> Finding {
    let actual = count(object, pointer);
    if actual >= wanted {
        return None;
    }
    let mut cause = format!("has {actual} of {wanted} replicas {state}");
    if let Some(condition) = condition(object, "ReplicaFailure").filter(|it| is_true(it))
        && let Some(message) = text(condition, "/message")
    {
        cause = format!("{cause}: {}", short(message));
    }
    progressing(cause)
}

fn above(object: &Value, wanted: i64) -> Finding {
    let extra = count(object, "/status/replicas") - wanted;
    if extra <= 0 {
        return None;
    }
    progressing(format!("has {extra} old replicas to end"))
}

pub(super) fn deployment(object: &Value) -> Finding {
    let wanted = replicas(object);
    let progress = condition(object, "Progressing");
    if let Some(progress) = progress
        && text(progress, "/reason") == Some("ProgressDeadlineExceeded")
    {
        let ready = count(object, "/status/readyReplicas");
        let cause = format!("has {ready} of {wanted} replicas ready after its progress deadline");
        return failed(with_message(&cause, progress));
    }
    let updated = count(object, "/status/updatedReplicas");
    if let Some(finding) = below(object, wanted, "/status/replicas", "created")
        .or_else(|| below(object, wanted, "/status/updatedReplicas", "updated"))
        .or_else(|| above(object, wanted))
        .or_else(|| below(object, updated, "/status/availableReplicas", "available"))
        .or_else(|| below(object, wanted, "/status/readyReplicas", "ready"))
    {
        return Some(finding);
    }
    let deadline = integer(object, "/spec/progressDeadlineSeconds").unwrap_or(NO_DEADLINE);
    let is_new_set_available = progress
        .is_some_and(|it| is_true(it) && text(it, "/reason") == Some("NewReplicaSetAvailable"));
    if deadline != NO_DEADLINE && !is_new_set_available {
        return progressing("has no available new replica set");
    }
    match condition(object, "Available") {
        Some(available) if is_true(available) => None,
        Some(available) => progressing(with_message("is not available", available)),
        None => progressing("is not available"),
    }
}

pub(super) fn stateful_set(object: &Value) -> Finding {
    if text(object, "/spec/updateStrategy/type") == Some("OnDelete") {
        return None;
    }
    let wanted = replicas(object);
    if let Some(finding) = below(object, wanted, "/status/replicas", "created")
        .or_else(|| below(object, wanted, "/status/readyReplicas", "ready"))
        .or_else(|| above(object, wanted))
    {
        return Some(finding);
    }
    if let Some(partition) = integer(object, "/spec/updateStrategy/rollingUpdate/partition") {
        return below(
            object,
            wanted - partition,
            "/status/updatedReplicas",
            "updated",
        );
    }
    below(
        object,
        wanted,
        "/status/currentReplicas",
        "at the current revision",
    )
    .or_else(|| {
        let current = text(object, "/status/currentRevision");
        let update = text(object, "/status/updateRevision");
        if current == update {
            return None;
        }
        let updated = count(object, "/status/updatedReplicas");
        progressing(format!("has {updated} of {wanted} replicas updated"))
    })
}

pub(super) fn daemon_set(object: &Value) -> Finding {
    if integer(object, "/status/observedGeneration").is_none() {
        return progressing("has not been observed by its controller");
    }
    let Some(wanted) = integer(object, "/status/desiredNumberScheduled") else {
        return progressing("has no number of desired pods");
    };
    let below = |pointer: &str, state: &str| {
        let actual = count(object, pointer);
        if actual >= wanted {
            return None;
        }
        progressing(format!("has {actual} of {wanted} pods {state}"))
    };
    below("/status/currentNumberScheduled", "scheduled")
        .or_else(|| below("/status/updatedNumberScheduled", "updated"))
        .or_else(|| below("/status/numberAvailable", "available"))
        .or_else(|| below("/status/numberReady", "ready"))
}

pub(super) fn replica_set(object: &Value) -> Finding {
    let wanted = replicas(object);
    below(object, wanted, "/status/fullyLabeledReplicas", "created")
        .or_else(|| below(object, wanted, "/status/availableReplicas", "available"))
        .or_else(|| below(object, wanted, "/status/readyReplicas", "ready"))
        .or_else(|| above(object, wanted))
        .or_else(|| {
            let failure = condition(object, "ReplicaFailure").filter(|it| is_true(it))?;
            progressing(with_message("cannot make its pods", failure))
        })
}
