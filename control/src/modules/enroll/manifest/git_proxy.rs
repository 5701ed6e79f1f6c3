//! Git proxy of the agent: its Service, its ports, and the namespaces that reach it.

use fairlead_api::site::GitProxyTarget;
use serde_json::{Value, json};

use super::{AGENT_NAME, metadata};

const NAME: &str = "fairlead-git-proxy";
/// Port of the HTTP proxy.
const HTTP_PORT: u16 = 3128;
/// Port of the forward in the pod. The Service has the port of the Git server, so that a URL needs no other one.
const FORWARD_PORT: u16 = 2222;
/// Namespaces of GitOps tools; no other pod reaches the proxy.
const TOOL_NAMESPACES: [&str; 2] = ["flux-system", "argocd"];

/// Service and network policy.
pub(super) fn objects(target: &GitProxyTarget) -> [Value; 2] {
    let selector = json!({ "app.kubernetes.io/name": AGENT_NAME });
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(NAME),
        "spec": {
            "selector": selector,
            "ports": [
                { "name": "git", "port": target.port(), "targetPort": "git-forward" },
                { "name": "http-proxy", "port": HTTP_PORT, "targetPort": "git-proxy" },
            ],
        },
    });
    let namespaces = json!({
        "namespaceSelector": {
            "matchExpressions": [{
                "key": "kubernetes.io/metadata.name",
                "operator": "In",
                "values": TOOL_NAMESPACES,
            }],
        },
    });
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(NAME),
        "spec": {
            "podSelector": { "matchLabels": selector },
            "policyTypes": ["Ingress"],
            "ingress": [{
                "from": [namespaces],
                "ports": [
                    { "protocol": "TCP", "port": FORWARD_PORT },
                    { "protocol": "TCP", "port": HTTP_PORT },
                ],
            }],
        },
    });
    [service, policy]
}

/// Variables of the agent.
pub(super) fn variables(target: &GitProxyTarget) -> [Value; 2] {
    let forward = format!("0.0.0.0:{FORWARD_PORT}={target}");
    [
        json!({ "name": "FAIRLEAD_GIT_PROXY", "value": format!("0.0.0.0:{HTTP_PORT}") }),
        json!({ "name": "FAIRLEAD_GIT_FORWARD", "value": forward }),
    ]
}

/// Ports of the agent's container.
pub(super) fn ports() -> [Value; 2] {
    [
        json!({ "name": "git-forward", "containerPort": FORWARD_PORT }),
        json!({ "name": "git-proxy", "containerPort": HTTP_PORT }),
    ]
}
