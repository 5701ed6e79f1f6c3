//! Rights of the agent in the namespace of the cluster's GitOps tool: its two Secrets, and the source of the catalog.

use fairlead_api::gitops::GitOpsTool;
use fairlead_delivery::INSTALLER;
use fairlead_gitops_install::{InstallerRights, namespace};
use serde_json::{Value, json};

use super::{AGENT_NAME, NAMESPACE, delivery, labels};

const NAME: &str = "fairlead-gitops";
/// Roles and bindings of the account that installs the tool.
const INSTALLER_NAME: &str = "fairlead-gitops-installer";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const RBAC_VERSION: &str = "rbac.authorization.k8s.io/v1";
/// Secret of the agent with the objects that an adoption changes.
const SAVED: &str = "fairlead-gitops-adopted";
/// Secret of the agent with the keys of a running rotation.
const KEYRING: &str = "fairlead-gitops-keys";

/// Annotation of the tool's namespace: the uninstall removes a namespace with it, if nobody uses it.
const MANIFEST_ANNOTATION: &str = "fairlead/manifest";

/// Namespace of the tool, and the agent's rights in it; nothing without a tool.
///
/// The namespace has no labels, because an existing one keeps its own. `exists`: the namespace is of others, and no part of
/// the manifest.
pub(super) fn objects(tool: GitOpsTool, adopt: bool, exists: bool) -> Vec<Value> {
    let Some((namespace, secret)) = secret(tool) else {
        return Vec::new();
    };
    let more = match tool {
        GitOpsTool::None => Vec::new(),
        GitOpsTool::Flux => flux_rules(),
        GitOpsTool::Argocd => argocd_rules(),
    };
    let mut rules = [secret_rules(secret), more].concat();
    if adopt {
        rules.extend(adoption_rules(tool, secret));
    }
    let metadata = json!({ "name": NAME, "namespace": namespace, "labels": labels() });
    let agent = json!({ "kind": "ServiceAccount", "name": AGENT_NAME, "namespace": NAMESPACE });
    let marked = json!({ "name": namespace, "annotations": { MANIFEST_ANNOTATION: "fairlead" } });
    let own = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": marked });
    let mut objects: Vec<Value> = (!exists).then_some(own).into_iter().collect();
    objects.extend([
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
    ]);
    objects
}

/// Account that installs the tool, with rights for the objects of the installation.
pub(super) fn installer(tool: GitOpsTool, rights: &InstallerRights) -> Vec<Value> {
    let Some(namespace) = namespace(tool) else {
        return Vec::new();
    };
    let account = json!({ "kind": "ServiceAccount", "name": INSTALLER, "namespace": delivery::DELIVERY_NAMESPACE });
    let of_cluster = json!({ "name": INSTALLER_NAME, "labels": labels() });
    let in_namespace =
        json!({ "name": INSTALLER_NAME, "namespace": namespace, "labels": labels() });
    let role = |kind: &str, metadata: &Value, rules: &[Value]| json!({ "apiVersion": RBAC_VERSION, "kind": kind, "metadata": metadata, "rules": rules });
    let binding = |kind: &str, metadata: &Value, role: &str| {
        json!({
            "apiVersion": RBAC_VERSION,
            "kind": kind,
            "metadata": metadata,
            "roleRef": { "apiGroup": RBAC_GROUP, "kind": role, "name": INSTALLER_NAME },
            "subjects": [account],
        })
    };
    vec![
        delivery::account(INSTALLER),
        role("ClusterRole", &of_cluster, &rights.cluster),
        binding("ClusterRoleBinding", &of_cluster, "ClusterRole"),
        role("Role", &in_namespace, &rights.namespaced),
        binding("RoleBinding", &in_namespace, "Role"),
    ]
}

/// Namespace and name of the tool's Secret.
pub(super) fn secret(tool: GitOpsTool) -> Option<(&'static str, &'static str)> {
    match tool {
        GitOpsTool::None => None,
        GitOpsTool::Flux => Some(("flux-system", "flux-system")),
        GitOpsTool::Argocd => Some(("argocd", "fairlead-catalog")),
    }
}

/// Objects that an adoption changes are saved, and returned at its end.
fn adoption_rules(tool: GitOpsTool, secret: &str) -> Vec<Value> {
    let verbs = ["get", "update", "delete"];
    let mut rules = vec![
        named("", "secrets", &["get", "delete"], SAVED),
        named("", "secrets", &["delete"], secret),
    ];
    let sources: &[(&str, &str)] = match tool {
        GitOpsTool::None => &[],
        GitOpsTool::Flux => &[
            ("source.toolkit.fluxcd.io", "gitrepositories"),
            ("kustomize.toolkit.fluxcd.io", "kustomizations"),
        ],
        GitOpsTool::Argocd => &[
            ("argoproj.io", "appprojects"),
            ("argoproj.io", "applications"),
        ],
    };
    let sources = sources.iter();
    rules.extend(sources.map(|(group, resource)| named(group, resource, &verbs, secret)));
    rules
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
