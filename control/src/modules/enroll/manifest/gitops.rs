//! Rights of the agent in the namespace of the cluster's GitOps tool: its two Secrets, and the source of the catalog.

use fairlead_api::gitops::GitOpsTool;
use serde_json::{Value, json};

use super::{AGENT_NAME, NAMESPACE, labels};

const NAME: &str = "fairlead-gitops";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const RBAC_VERSION: &str = "rbac.authorization.k8s.io/v1";
/// Secret of the agent with the keys of a running rotation.
const KEYRING: &str = "fairlead-gitops-keys";

/// Namespace of the tool, and the agent's rights in it; nothing without a tool.
pub(super) fn objects(tool: GitOpsTool) -> Vec<Value> {
    let (namespace, secret, more) = match tool {
        GitOpsTool::None => return Vec::new(),
        GitOpsTool::Flux => ("flux-system", "flux-system", flux_rules()),
        GitOpsTool::Argocd => ("argocd", "fairlead-catalog", argocd_rules()),
    };
    let rules = [secret_rules(secret), more].concat();
    let metadata = json!({ "name": NAME, "namespace": namespace, "labels": labels() });
    let agent = json!({ "kind": "ServiceAccount", "name": AGENT_NAME, "namespace": NAMESPACE });
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace, "labels": labels() } }),
        json!({
            "apiVersion": RBAC_VERSION,
            "kind": "Role",
            "metadata": metadata,
            "rules": rules,
        }),
        json!({
            "apiVersion": RBAC_VERSION,
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": { "apiGroup": RBAC_GROUP, "kind": "Role", "name": NAME },
            "subjects": [agent],
        }),
    ]
}

fn secret_rules(secret: &str) -> Vec<Value> {
    vec![
        named("", "secrets", &["get", "update"], secret),
        named("", "secrets", &["get", "update", "delete"], KEYRING),
        // RBAC cannot restrict `create` by name. An admission policy allows the agent Secrets of its own types only.
        json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["create"] }),
        // Repairs of the Secret are announced.
        json!({ "apiGroups": [""], "resources": ["events"], "verbs": ["create"] }),
    ]
}

/// Status of the source tells about the last sync, and an annotation requests one.
fn flux_rules() -> Vec<Value> {
    let (group, resource) = ("source.toolkit.fluxcd.io", "gitrepositories");
    vec![named(group, resource, &["get", "update"], "flux-system")]
}

/// Status of Applications tells about the last sync. Argo CD has one ConfigMap for the host keys of all repositories.
fn argocd_rules() -> Vec<Value> {
    let hosts = "argocd-ssh-known-hosts-cm";
    vec![
        named("", "configmaps", &["get", "update"], hosts),
        json!({ "apiGroups": ["argoproj.io"], "resources": ["applications"], "verbs": ["list"] }),
    ]
}

fn named(group: &str, resource: &str, verbs: &[&str], name: &str) -> Value {
    json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs, "resourceNames": [name] })
}
