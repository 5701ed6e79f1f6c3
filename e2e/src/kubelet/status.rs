//! Status of a pod, as the kubelet reports it.

use serde_json::{Value, json};

use super::{
    container::{Container, State},
    list, text,
};

/// Phase of a pod.
#[derive(Debug, Clone, Copy)]
pub(super) enum Phase {
    Pending,
    Running,
}

/// Status with the states of all containers.
pub(super) fn of(pod: &Value, containers: &[Container], phase: Phase) -> Value {
    let statuses: Vec<Value> = containers.iter().map(of_container).collect();
    let is_ready = containers.iter().all(Container::is_ready);
    with(pod, phase, is_ready, statuses)
}

/// Status of a pod whose containers cannot be started.
pub(super) fn waiting(pod: &Value, reason: &str, error: &anyhow::Error) -> Value {
    let specs = list(pod, "/spec/containers");
    let message = format!("{error:#}");
    let status = |spec: &Value| {
        json!({
            "name": text(spec, "/name"),
            "image": text(spec, "/image"),
            "imageID": "",
            "ready": false,
            "restartCount": 0,
            "state": { "waiting": { "reason": reason, "message": message } },
        })
    };
    with(
        pod,
        Phase::Pending,
        false,
        specs.iter().map(status).collect(),
    )
}

fn with(pod: &Value, phase: Phase, is_ready: bool, statuses: Vec<Value>) -> Value {
    let created = text(pod, "/metadata/creationTimestamp");
    let condition = |kind: &str, is_true: bool| {
        let status = if is_true { "True" } else { "False" };
        // The time of the creation serves for all, so that equal statuses are equal documents.
        json!({ "type": kind, "status": status, "lastTransitionTime": created })
    };
    json!({ "status": {
        "phase": match phase { Phase::Pending => "Pending", Phase::Running => "Running" },
        "startTime": created,
        "hostIP": "127.0.0.1",
        "podIP": "127.0.0.1",
        "podIPs": [{ "ip": "127.0.0.1" }],
        "conditions": [
            condition("PodScheduled", true),
            condition("Initialized", true),
            condition("ContainersReady", is_ready),
            condition("Ready", is_ready),
        ],
        "containerStatuses": statuses,
    } })
}

fn of_container(container: &Container) -> Value {
    let state = match &container.state {
        State::Running(_) => json!({ "running": {} }),
        State::Waiting { .. } => json!({ "waiting": { "reason": "CrashLoopBackOff" } }),
    };
    let last = match &container.state {
        State::Waiting { code, .. } => json!({ "terminated": { "exitCode": code } }),
        State::Running(_) => json!({}),
    };
    json!({
        "name": container.name,
        "image": container.image,
        "imageID": container.image,
        "containerID": format!("process://{}", container.name),
        "ready": container.is_ready(),
        "started": container.has_started(),
        "restartCount": container.restarts,
        "state": state,
        "lastState": last,
    })
}
