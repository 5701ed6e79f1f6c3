//! Health of objects by the rules of kstatus (`sigs.k8s.io/cli-utils`).

mod generic;
mod kinds;
mod workloads;

use serde_json::Value;

use crate::object::{ObjectKey, text};

/// Annotation that takes an object out of health checks, with the value [`HEALTH_IGNORED`].
pub const HEALTH_ANNOTATION: &str = "fairlead/health";
/// Value of [`HEALTH_ANNOTATION`].
pub const HEALTH_IGNORED: &str = "ignore";

/// Health of one object or of a bundle, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HealthState {
    /// The desired state is reached.
    Ready,
    /// A controller works towards the desired state.
    Progressing,
    /// The object is being deleted.
    Terminating,
    /// The desired state is out of reach without a change.
    Failed,
}

/// Health of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The state.
    pub state: HealthState,
    /// Sentence with object and cause, like `Deployment shop/web has 1 of 3 replicas ready`. Empty if ready.
    pub reason: String,
}

impl Health {
    /// An object that reached its desired state.
    pub const READY: Health = Health {
        state: HealthState::Ready,
        reason: String::new(),
    };

    /// An object that is not in the cluster.
    #[must_use]
    pub fn missing(key: &ObjectKey) -> Self {
        Self {
            state: HealthState::Progressing,
            reason: format!("{key} does not exist"),
        }
    }
}

/// Health of a set of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthSummary {
    /// Number of all objects.
    pub total: usize,
    /// Number of ready objects.
    pub ready: usize,
    /// Health of the worst object; the first of equal ones.
    pub worst: Health,
}

impl HealthSummary {
    /// Sums up a set. An empty set is ready.
    pub fn of(set: impl IntoIterator<Item = Health>) -> Self {
        let mut summary = Self {
            total: 0,
            ready: 0,
            worst: Health::READY,
        };
        for health in set {
            summary.total += 1;
            summary.ready += usize::from(health.state == HealthState::Ready);
            if health.state > summary.worst.state {
                summary.worst = health;
            }
        }
        summary
    }
}

/// Result of a rule: a state, and the rest of a sentence that begins with the object.
type Finding = Option<(HealthState, String)>;

fn progressing(cause: impl Into<String>) -> Finding {
    Some((HealthState::Progressing, cause.into()))
}

fn failed(cause: impl Into<String>) -> Finding {
    Some((HealthState::Failed, cause.into()))
}

/// Judges an object as the API server returned it. `waits_for_consumer` is true for storage classes, by name, that bind a
/// volume when its first pod starts; `None` is the default class.
#[must_use]
pub fn health(object: &Value, waits_for_consumer: &dyn Fn(Option<&str>) -> bool) -> Health {
    let Some(key) = ObjectKey::of(object) else {
        return Health::READY;
    };
    let annotation = object.pointer("/metadata/annotations");
    let annotation = annotation.and_then(|it| it.get(HEALTH_ANNOTATION));
    if annotation.and_then(Value::as_str) == Some(HEALTH_IGNORED) {
        return Health::READY;
    }
    let finding = generic::check(object).or_else(|| by_kind(&key, object, waits_for_consumer));
    match finding {
        None => Health::READY,
        Some((state, cause)) => Health {
            state,
            reason: format!("{key} {cause}"),
        },
    }
}

fn by_kind(
    key: &ObjectKey,
    object: &Value,
    waits_for_consumer: &dyn Fn(Option<&str>) -> bool,
) -> Finding {
    match (key.group.as_str(), key.kind.as_str()) {
        ("apps" | "extensions", "Deployment") => workloads::deployment(object),
        ("apps", "StatefulSet") => workloads::stateful_set(object),
        ("apps" | "extensions", "DaemonSet") => workloads::daemon_set(object),
        ("apps" | "extensions", "ReplicaSet") | ("", "ReplicationController") => {
            workloads::replica_set(object)
        }
        ("", "Pod") => kinds::pod(object),
        ("batch", "Job") => kinds::job(object),
        ("batch", "CronJob") | ("", "ConfigMap" | "Secret") => None,
        ("", "Service") => kinds::service(object),
        ("", "PersistentVolumeClaim") => {
            let class = text(object, "/spec/storageClassName");
            kinds::volume_claim(object, waits_for_consumer(class))
        }
        ("", "Namespace") => kinds::namespace(object),
        ("policy", "PodDisruptionBudget") => kinds::disruption_budget(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => kinds::definition(object),
        ("apiregistration.k8s.io", "APIService") => kinds::api_service(object),
        _ => generic::ready_condition(object),
    }
}

#[cfg(test)]
mod tests;
