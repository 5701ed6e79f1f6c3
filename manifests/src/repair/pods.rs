//! Pods of a workload that is not available: those that merely start, and those that fail.

use serde_json::Value;

use crate::object::text;

/// Reasons of a container that has not started yet, and has not failed.
const STARTING_REASONS: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// True if there are pods, and none of them fails: a large image or a slow node delays a good version, too.
#[must_use]
pub fn is_starting(pods: &[Value]) -> bool {
    !pods.is_empty() && pods.iter().all(|pod| !has_failed(pod))
}

fn has_failed(pod: &Value) -> bool {
    if text(pod, "/status/phase") == Some("Failed") {
        return true;
    }
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let statuses = lists.iter().filter_map(|it| pod.pointer(it)?.as_array());
    statuses.flatten().any(|status| {
        let waiting = text(status, "/state/waiting/reason");
        let is_refused = waiting.is_some_and(|it| !STARTING_REASONS.contains(&it));
        let restarts = status.get("restartCount").and_then(Value::as_u64);
        is_refused || (restarts.unwrap_or_default() > 0 && !is_running_ready(status))
    })
}

fn is_running_ready(status: &Value) -> bool {
    status.get("ready").and_then(Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(waiting: Option<&str>, restarts: u64) -> Value {
        let state = waiting.map_or_else(
            || json!({"running": {}}),
            |reason| json!({"waiting": {"reason": reason}}),
        );
        json!({"status": {"phase": "Pending", "containerStatuses": [
            {"state": state, "restartCount": restarts, "ready": false},
        ]}})
    }

    #[test]
    fn only_pods_without_a_failure_are_starting() {
        assert!(!is_starting(&[]), "no pod may ever come");
        assert!(is_starting(&[pod(Some("ContainerCreating"), 0)]));
        assert!(is_starting(&[pod(None, 0)]), "it is not ready yet");
        for reason in [
            "CrashLoopBackOff",
            "ImagePullBackOff",
            "ErrImagePull",
            "CreateContainerConfigError",
        ] {
            let pods = [pod(Some("ContainerCreating"), 0), pod(Some(reason), 0)];
            assert!(!is_starting(&pods), "{reason}");
        }
        assert!(!is_starting(&[pod(None, 2)]), "it restarts");
        assert!(!is_starting(&[json!({"status": {"phase": "Failed"}})]));
    }
}
