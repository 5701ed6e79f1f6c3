//! Health of followed objects: kinds to read, and storage classes that wait for a pod.

use std::{collections::HashMap, time::Duration};

use fairlead_manifests::{Health, ObjectKey, health};
use serde_json::Value;
use tokio::time::Instant;

use super::api::ObjectApi;
use crate::kube::Query;

/// Quiet time of an object before its health is read.
pub(super) const HEALTH_QUIET: Duration = Duration::from_secs(2);
/// Shortest time between two reads of an object.
pub(super) const HEALTH_INTERVAL: Duration = Duration::from_secs(10);
const CLASSES_PATH: &str = "/apis/storage.k8s.io/v1/storageclasses";
const CLASSES_LIFETIME: Duration = Duration::from_secs(600);
const DEFAULT_CLASS_ANNOTATION: &str = "storageclass.kubernetes.io/is-default-class";

/// Kinds without a status that says anything about health, by group.
const STATELESS_KINDS: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "ConfigMap",
            "Secret",
            "ServiceAccount",
            "LimitRange",
            "ResourceQuota",
            "Endpoints",
        ],
    ),
    (
        "rbac.authorization.k8s.io",
        &["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"],
    ),
    ("networking.k8s.io", &["NetworkPolicy", "IngressClass"]),
    ("scheduling.k8s.io", &["PriorityClass"]),
    ("storage.k8s.io", &["StorageClass", "CSIDriver"]),
    ("node.k8s.io", &["RuntimeClass"]),
    ("batch", &["CronJob"]),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
            "ValidatingAdmissionPolicyBinding",
        ],
    ),
];

/// True if the health of the kind can change.
pub(super) fn has_health(key: &ObjectKey) -> bool {
    !STATELESS_KINDS
        .iter()
        .any(|(group, kinds)| *group == key.group && kinds.contains(&key.kind.as_str()))
}

/// Storage classes of the cluster that bind a volume when its first pod starts.
#[derive(Debug, Default)]
pub(super) struct StorageClasses {
    read_at: Option<Instant>,
    /// By name; the default class also by `None`.
    waits: HashMap<Option<String>, bool>,
}

impl StorageClasses {
    /// Health of a live object.
    pub(super) async fn health(&mut self, api: &dyn ObjectApi, object: &Value) -> Health {
        let is_claim = ObjectKey::of(object).is_some_and(|it| it.is("", "PersistentVolumeClaim"));
        if is_claim {
            self.refresh(api).await;
        }
        health(object, &|class| {
            let waits = self.waits.get(&class.map(str::to_owned));
            waits.copied().unwrap_or_default()
        })
    }

    /// Reads the classes. Without the right to do so, a claim is ready once it is bound.
    async fn refresh(&mut self, api: &dyn ObjectApi) {
        let is_fresh = |at: Instant| at.elapsed() < CLASSES_LIFETIME;
        if self.read_at.is_some_and(is_fresh) {
            return;
        }
        self.read_at = Some(Instant::now());
        let Ok(Some(list)) = api.list(CLASSES_PATH, &Query::default()).await else {
            return;
        };
        self.waits.clear();
        for class in list.items {
            let text = |pointer: &str| class.pointer(pointer).and_then(Value::as_str);
            let waits = text("/volumeBindingMode") == Some("WaitForFirstConsumer");
            let name = text("/metadata/name").unwrap_or_default().to_owned();
            let annotations = class.pointer("/metadata/annotations");
            let default = annotations.and_then(|it| it.get(DEFAULT_CLASS_ANNOTATION));
            if default.and_then(Value::as_str) == Some("true") {
                self.waits.insert(None, waits);
            }
            self.waits.insert(Some(name), waits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_without_status_are_not_read() {
        let key = |group: &str, kind: &str| ObjectKey {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: None,
            name: "a".to_owned(),
        };
        assert!(!has_health(&key("", "ConfigMap")));
        assert!(!has_health(&key("batch", "CronJob")));
        assert!(has_health(&key("apps", "Deployment")));
        assert!(has_health(&key("example.org", "ConfigMap")));
    }
}
