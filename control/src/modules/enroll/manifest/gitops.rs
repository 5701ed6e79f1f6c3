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
    let (namespace, secret, source) = match tool {
        GitOpsTool::None | GitOpsTool::Argocd => return Vec::new(),
        GitOpsTool::Flux => (
            "flux-system",
            "flux-system",
            ("source.toolkit.fluxcd.io", "gitrepositories", "flux-system"),
        ),
    };
    let metadata = json!({ "name": NAME, "namespace": namespace, "labels": labels() });
    let agent = json!({ "kind": "ServiceAccount", "name": AGENT_NAME, "namespace": NAMESPACE });
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }),
        json!({
            "apiVersion": RBAC_VERSION,
            "kind": "Role",
            "metadata": metadata,
            "rules": rules(secret, source),
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

fn rules(secret: &str, (group, resource, source): (&str, &str, &str)) -> Value {
    let rule = |group: &str, resource: &str, verbs: &[&str], name: &str| json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs, "resourceNames": [name] });
    json!([
        rule("", "secrets", &["get", "update"], secret),
        rule("", "secrets", &["get", "update", "delete"], KEYRING),
        // RBAC cannot restrict `create` by name. An admission policy allows the agent Secrets of its own types only.
        { "apiGroups": [""], "resources": ["secrets"], "verbs": ["create"] },
        // Its status tells about the last sync, and an annotation requests one.
        rule(group, resource, &["get", "update"], source),
    ])
}
