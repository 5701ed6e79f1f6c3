//! Health of pods, jobs, services, volume claims, budgets, definitions, API services and namespaces.

use serde_json::Value;

use super::{
    Finding, failed,
    generic::{condition, integer, is_false, is_true, with_message},
    progressing,
};
use crate::{object::text, sentence::short};

/// Reasons of a waiting container that do not end without a change.
const BROKEN_CONTAINER: [&str; 6] = [
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
];

pub(super) fn pod(object: &Value) -> Finding {
    let phase = text(object, "/status/phase").unwrap_or("Pending");
    match phase {
        "Succeeded" => return None,
        "Failed" => {
            let message =
                text(object, "/status/message").or_else(|| text(object, "/status/reason"));
            return failed(match message {
                Some(message) => format!("failed: {}", short(message)),
                None => "failed".to_owned(),
            });
        }
        _ => {}
    }
    if condition(object, "Ready").is_some_and(is_true) {
        return None;
    }
    if let Some(finding) = broken_container(object) {
        return Some(finding);
    }
    if let Some(scheduled) = condition(object, "PodScheduled")
        && is_false(scheduled)
    {
        return progressing(with_message("is not scheduled", scheduled));
    }
    match condition(object, "Ready") {
        Some(ready) if phase == "Running" => progressing(with_message("is not ready", ready)),
        _ => progressing(format!("is {}", phase.to_lowercase())),
    }
}

fn broken_container(object: &Value) -> Finding {
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let containers = lists
        .into_iter()
        .filter_map(|pointer| object.pointer(pointer)?.as_array())
        .flatten();
    for container in containers {
        let Some(reason) = text(container, "/state/waiting/reason") else {
            continue;
        };
        if BROKEN_CONTAINER.contains(&reason) {
            let name = text(container, "/name").unwrap_or_default();
            let message = text(container, "/state/waiting/message").map(short);
            let message = message.map(|it| format!(": {it}")).unwrap_or_default();
            return failed(format!("has container {name} in {reason}{message}"));
        }
    }
    None
}

pub(super) fn job(object: &Value) -> Finding {
    if let Some(condition) = condition(object, "Failed")
        && is_true(condition)
    {
        return failed(with_message("failed", condition));
    }
    let is_done = ["Complete", "Suspended"]
        .into_iter()
        .any(|kind| condition(object, kind).is_some_and(is_true));
    // A started job is ready: its end may be days away.
    if is_done || text(object, "/status/startTime").is_some() {
        return None;
    }
    progressing("has not started")
}

pub(super) fn service(object: &Value) -> Finding {
    let is_balanced = text(object, "/spec/type") == Some("LoadBalancer");
    if is_balanced && text(object, "/spec/clusterIP").is_none() {
        return progressing("has no cluster IP");
    }
    None
}

pub(super) fn volume_claim(object: &Value, waits_for_consumer: bool) -> Finding {
    match text(object, "/status/phase") {
        Some("Bound") => None,
        Some("Lost") => failed("lost its volume"),
        _ if waits_for_consumer => None,
        _ => progressing("is not bound to a volume"),
    }
}

pub(super) fn namespace(object: &Value) -> Finding {
    match text(object, "/status/phase") {
        Some("Active") => None,
        _ => progressing("is not active"),
    }
}

pub(super) fn disruption_budget(object: &Value) -> Finding {
    let Some(desired) = integer(object, "/status/desiredHealthy") else {
        return progressing("has not been observed by its controller");
    };
    let current = integer(object, "/status/currentHealthy").unwrap_or_default();
    if current >= desired {
        return None;
    }
    progressing(format!("has {current} of {desired} pods healthy"))
}

pub(super) fn definition(object: &Value) -> Finding {
    if let Some(names) = condition(object, "NamesAccepted")
        && is_false(names)
    {
        return failed(with_message("has names that are taken", names));
    }
    match condition(object, "Established") {
        Some(established) if is_true(established) => None,
        Some(established) if text(established, "/reason") != Some("Installing") => {
            failed(with_message("is not established", established))
        }
        _ => progressing("is not established"),
    }
}

pub(super) fn api_service(object: &Value) -> Finding {
    match condition(object, "Available") {
        Some(available) if is_true(available) => None,
        Some(available) => progressing(with_message("is not available", available)),
        None => progressing("is not available"),
    }
}
