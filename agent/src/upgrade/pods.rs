//! Cause of new pods that do not become ready, from their status. Pure.

use serde_json::Value;

const NO_PODS: &str = "the new pods were not created in time";

/// Cause for the pods with this image: the first waiting or ended container, or a pod that no node takes.
pub(super) fn cause(pods: &[Value], image: &str) -> String {
    let new: Vec<&Value> = pods.iter().filter(|pod| has_image(pod, image)).collect();
    let found = new.iter().find_map(|pod| {
        let cause = of_containers(pod).or_else(|| of_scheduling(pod))?;
        Some(format!("{}: {cause}", name(pod)))
    });
    match (found, new.first()) {
        (Some(cause), _) => cause,
        (None, Some(pod)) => format!(
            "{}: the agent did not connect to the hub in time",
            name(pod)
        ),
        (None, None) => NO_PODS.to_owned(),
    }
}

fn has_image(pod: &Value, image: &str) -> bool {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    let mut containers = containers.into_iter().flatten();
    containers.any(|it| it.get("image").is_some_and(|it| it == image))
}

fn name(pod: &Value) -> &str {
    let name = pod.pointer("/metadata/name").and_then(Value::as_str);
    name.unwrap_or("a pod")
}

fn of_containers(pod: &Value) -> Option<String> {
    let statuses = pod.pointer("/status/containerStatuses")?.as_array()?;
    // The reason of an ended container explains more than the wait before its restart.
    let ended = statuses.iter().find_map(|status| {
        let ended = status
            .pointer("/lastState/terminated")
            .or_else(|| status.pointer("/state/terminated"))?;
        let code = ended.get("exitCode").and_then(Value::as_i64)?;
        Some(match text(ended, "reason") {
            Some(reason) => format!("a container ended with exit code {code} ({reason})"),
            None => format!("a container ended with exit code {code}"),
        })
    });
    ended.or_else(|| statuses.iter().find_map(waiting))
}

fn waiting(status: &Value) -> Option<String> {
    let waiting = status.pointer("/state/waiting")?;
    let reason = text(waiting, "reason")?;
    Some(match text(waiting, "message") {
        Some(message) => format!("{reason}: {message}"),
        None => reason.to_owned(),
    })
}

fn of_scheduling(pod: &Value) -> Option<String> {
    let conditions = pod.pointer("/status/conditions")?.as_array()?;
    let condition = conditions.iter().find(|it| {
        let is = |field, value| text(it, field) == Some(value);
        is("type", "PodScheduled") && is("status", "False")
    })?;
    let message = text(condition, "message").unwrap_or("no message");
    Some(format!("not scheduled: {message}"))
}

fn text<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    object.get(field).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, image: &str, status: Value) -> Value {
        json!({
            "metadata": { "name": name },
            "spec": { "containers": [{ "image": image }] },
            "status": status,
        })
    }

    #[test]
    fn waiting_container_of_a_new_pod_is_the_cause() {
        let pull = json!({ "containerStatuses": [
            { "state": { "waiting": { "reason": "ImagePullBackOff", "message": "no such image" } } },
        ] });
        let pods = [pod("old", "a:1", json!({})), pod("new", "a:2", pull)];
        assert_eq!(cause(&pods, "a:2"), "new: ImagePullBackOff: no such image");
        assert_eq!(
            cause(&pods, "a:1"),
            "old: the agent did not connect to the hub in time"
        );
        assert_eq!(cause(&pods, "a:3"), NO_PODS);
    }

    #[test]
    fn exit_code_comes_before_the_wait_for_a_restart() {
        let crash = json!({ "containerStatuses": [{
            "state": { "waiting": { "reason": "CrashLoopBackOff" } },
            "lastState": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } },
        }] });
        assert_eq!(
            cause(&[pod("new", "a:2", crash)], "a:2"),
            "new: a container ended with exit code 137 (OOMKilled)"
        );
    }

    #[test]
    fn pod_without_a_node_says_so() {
        let unscheduled = json!({ "conditions": [
            { "type": "PodScheduled", "status": "False", "message": "0/3 nodes are available" },
        ] });
        assert_eq!(
            cause(&[pod("new", "a:2", unscheduled)], "a:2"),
            "new: not scheduled: 0/3 nodes are available"
        );
    }
}
