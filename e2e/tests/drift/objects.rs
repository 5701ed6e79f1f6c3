//! Objects of the test bundles.

use serde_json::{Value, json};

fn metadata(kind: &str) -> Value {
    // Objects of the cluster get their name from the case.
    match kind {
        "ValidatingWebhookConfiguration" | "ClusterRole" => json!({"name": "web"}),
        _ => json!({"name": "web", "namespace": "x", "labels": {"app": "web"}}),
    }
}

pub(crate) fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("ConfigMap"), "data": {"a": "1", "b": "2"}})
}

pub(crate) fn secret() -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("Secret"), "stringData": {"password": "hunter2"}, "data": {"user": "c2hvcA=="}})
}

pub(crate) fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("Deployment"),
        "spec": {
            "replicas": 2, "paused": true, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [{
                        "name": "web", "image": "web:1", "args": ["a"],
                        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                        "ports": [{"containerPort": 80}],
                        "resources": {"requests": {"cpu": "1000m"}},
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    }],
                    "initContainers": [{"name": "one", "image": "i"}, {"name": "two", "image": "i"}],
                    "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "a"}],
                    "volumes": [{"name": "data", "emptyDir": {}}],
                },
            },
        },
    })
}

/// Without replicas: an autoscaler's.
pub(crate) fn autoscaled() -> Value {
    let mut object = deployment();
    object["spec"].as_object_mut().unwrap().remove("replicas");
    object
}

pub(crate) fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata("Service"),
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]},
    })
}

pub(crate) fn role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata("Role"),
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    })
}

pub(crate) fn network_policy() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata("NetworkPolicy"),
        "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"]},
    })
}

pub(crate) fn ingress() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata("Ingress"),
        "spec": {"rules": [{"host": "a.example", "http": {"paths": [
            {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}},
        ]}}]},
    })
}

/// The empty bundle of certificates is dropped before the apply.
pub(crate) fn webhook() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": metadata("ValidatingWebhookConfiguration"),
        "webhooks": [{
            "name": "web.example.org", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
            "clientConfig": {"service": {"namespace": "default", "name": "web"}, "caBundle": ""},
            "rules": [{"apiGroups": ["example.org"], "apiVersions": ["v1"], "resources": ["webs"], "operations": ["CREATE"]}],
        }],
    })
}
