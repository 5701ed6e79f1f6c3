//! The six install manifests of Project Syn's Steward, in Lieutenant's order.
//!
//! Steward gets full rights: it must be able to set up anything in a catalog.

use fairlead_api::ClusterId;
use serde_json::{Value, json};

const NAMESPACE: &str = "syn";
const NAME: &str = "steward";

pub(super) struct Steward<'a> {
    /// URL of the hub as Steward reaches it.
    pub(super) api: &'a str,
    pub(super) cluster: &'a ClusterId,
    pub(super) token: &'a str,
    pub(super) image: &'a str,
}

pub(super) fn manifests(steward: &Steward) -> Value {
    let account = json!({ "kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE });
    let items = [
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": "syn-admin" },
            "rules": [
                { "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] },
                { "nonResourceURLs": ["*"], "verbs": ["*"] },
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": "syn-steward" },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "syn-admin",
            },
            "subjects": [account],
        }),
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "name": NAME, "namespace": NAMESPACE },
        }),
        deployment(steward),
        secret(steward.token),
    ];
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

/// The Secret from which Steward reads its token when it starts.
pub(super) fn secret(token: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": NAME, "namespace": NAMESPACE },
        "type": "Opaque",
        "stringData": { "token": token },
    })
}

fn deployment(steward: &Steward) -> Value {
    let labels = json!({
        "app.kubernetes.io/name": NAME,
        "app.kubernetes.io/managed-by": "syn",
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": NAME, "namespace": NAMESPACE, "labels": labels },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "serviceAccountName": NAME,
                    "securityContext": {
                        "runAsNonRoot": true,
                        "seccompProfile": { "type": "RuntimeDefault" },
                    },
                    "containers": [{
                        "name": NAME,
                        "image": steward.image,
                        "env": env(steward),
                        "resources": {
                            "requests": { "cpu": "100m", "memory": "32Mi" },
                            "limits": { "cpu": "200m", "memory": "64Mi" },
                        },
                        "securityContext": {
                            "runAsNonRoot": true,
                            "allowPrivilegeEscalation": false,
                            "capabilities": { "drop": ["ALL"] },
                        },
                    }],
                },
            },
        },
    })
}

fn env(steward: &Steward) -> Value {
    json!([
        { "name": "STEWARD_API", "value": steward.api },
        { "name": "STEWARD_CLUSTER_ID", "value": steward.cluster },
        {
            "name": "STEWARD_TOKEN",
            "valueFrom": { "secretKeyRef": { "name": NAME, "key": "token" } },
        },
        {
            "name": "STEWARD_NAMESPACE",
            "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } },
        },
    ])
}
