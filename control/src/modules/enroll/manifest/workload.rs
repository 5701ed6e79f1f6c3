//! The Deployment of the agent, and the network policy of its pods.

use fairlead_api::site::OperatorNamespace;
use serde_json::{Value, json};

use super::{
    ADMIN_PORT, AGENT_NAME, AgentStart, IMAGE_UID, JOIN_SECRET, ManifestInput, delivery, git_proxy,
    has_delivery, labels, metadata, site,
};

/// Nothing but metrics and health may be requested from the agent. The way out stays open: the manifest cannot know the
/// addresses of hub, proxy, DNS and API server.
pub(super) fn network_policy() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(AGENT_NAME),
        "spec": {
            "podSelector": { "matchLabels": { "app.kubernetes.io/name": AGENT_NAME } },
            "policyTypes": ["Ingress"],
            "ingress": [{ "ports": [{ "protocol": "TCP", "port": ADMIN_PORT }] }],
        },
    })
}

pub(super) fn deployment(input: &ManifestInput) -> Value {
    let selector = json!({ "app.kubernetes.io/name": AGENT_NAME });
    let mut pod = json!({
        "serviceAccountName": AGENT_NAME,
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": IMAGE_UID,
            "runAsGroup": IMAGE_UID,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "containers": [container(input)],
    });
    if has_delivery(input) {
        delivery::add_runner(&mut pod, input);
    }
    site::add_authorities(&mut pod, &input.site);
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(AGENT_NAME),
        "spec": {
            "replicas": 1,
            "strategy": { "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 } },
            "selector": { "matchLabels": selector },
            "template": {
                "metadata": {
                    "labels": labels(),
                    "annotations": { "fairlead/version": input.version },
                },
                "spec": pod,
            },
        },
    })
}

fn container(input: &ManifestInput) -> Value {
    // Ready means connected to the hub. An unreachable hub must neither restart the pod nor let a
    // rollout terminate the previous one.
    let probe = |path: &str, failures: u32| {
        json!({
            "httpGet": { "path": path, "port": "admin" },
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": failures,
        })
    };
    let start = match &input.start {
        AgentStart::Join { .. } => vec![json!({
            "name": "FAIRLEAD_JOIN",
            "valueFrom": { "secretKeyRef": { "name": JOIN_SECRET, "key": "join" } },
        })],
        AgentStart::Adopt { hub } => vec![
            json!({ "name": "FAIRLEAD_ADOPT", "value": "true" }),
            json!({ "name": "FAIRLEAD_HUB", "value": hub.to_string() }),
        ],
    };
    let mut variables = vec![
        json!({ "name": "FAIRLEAD_ADMIN", "value": format!("0.0.0.0:{ADMIN_PORT}") }),
        json!({
            "name": "FAIRLEAD_POD_UID",
            "valueFrom": { "fieldRef": { "fieldPath": "metadata.uid" } },
        }),
    ];
    variables.splice(0..0, start);
    let namespaces = input.choices.operator_namespaces.iter();
    let namespaces: Vec<&str> = namespaces.map(OperatorNamespace::as_str).collect();
    if !namespaces.is_empty() {
        let value = namespaces.join(",");
        variables.push(json!({ "name": "FAIRLEAD_OPERATOR_NAMESPACES", "value": value }));
    }
    let mut ports = vec![json!({ "name": "admin", "containerPort": ADMIN_PORT })];
    variables.extend(site::variables(&input.site));
    if let Some(target) = &input.choices.git_proxy {
        variables.extend(git_proxy::variables(target));
        ports.extend(git_proxy::ports());
    }
    json!({
        "name": "agent",
        "image": input.image,
        "args": ["agent"],
        "env": variables,
        "ports": ports,
        "readinessProbe": probe("/readyz", 3),
        "livenessProbe": probe("/healthz", 6),
        "resources": {
            "requests": { "cpu": "10m", "memory": "32Mi" },
            "limits": { "memory": "256Mi" },
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
        },
    })
}
