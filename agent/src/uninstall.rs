//! Removes from a cluster the objects that the install manifest and the agent made there. Objects of other people are left
//! and named. Objects that are gone already are no error, so that a second run finishes the first.

use fairlead_api::{Failure, impersonation::NAME_PREFIX, resources::Role};
use serde_json::Value;

use crate::{config::DEFAULT_NAMESPACE, objects::Objects};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const NAME: &str = "/metadata/name";
const LABEL: &str = "/metadata/labels/app.kubernetes.io~1part-of";
const AGENT: &str = "fairlead-agent";
const CLUSTER_ROLES: [&str; 3] = [AGENT, "fairlead-facts", "fairlead-facts-helm"];
/// Kinds of workload that keep the namespace, unless they are the agent.
const WORKLOADS: [(&str, &str); 3] = [
    ("Deployment", "deployments"),
    ("StatefulSet", "statefulsets"),
    ("DaemonSet", "daemonsets"),
];

/// An object of Fairlead's in a cluster. Displays as `ClusterRole fairlead-agent`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    kind: &'static str,
    name: String,
    namespaced: bool,
    path: String,
    /// Objects without it belong to somebody else.
    has_label: bool,
}

impl std::fmt::Display for Installed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Installed { kind, name, .. } = self;
        match self.namespaced {
            true => write!(f, "{kind} {DEFAULT_NAMESPACE}/{name}"),
            false if *kind == "Namespace" => write!(f, "Namespace {name}, with all that is in it"),
            false => write!(f, "{kind} {name}"),
        }
    }
}

impl Installed {
    fn of_cluster(kind: &'static str, kinds: &str, name: &str) -> Self {
        Installed {
            kind,
            name: name.to_owned(),
            namespaced: false,
            path: format!("{RBAC}/{kinds}/{name}"),
            has_label: true,
        }
    }

    fn of_namespace(kind: &'static str, api: &str, kinds: &str, name: &str) -> Self {
        Installed {
            kind,
            name: name.to_owned(),
            namespaced: true,
            path: format!("{api}/namespaces/{DEFAULT_NAMESPACE}/{kinds}/{name}"),
            has_label: true,
        }
    }

    /// In the order in which they go: the agent first, its namespace last.
    fn all() -> Vec<Self> {
        let secret = |name| Installed::of_namespace("Secret", "/api/v1", "secrets", name);
        let mut all = vec![
            Installed::of_namespace("Deployment", "/apis/apps/v1", "deployments", AGENT),
            Installed::of_namespace("RoleBinding", RBAC, "rolebindings", AGENT),
            Installed::of_namespace("Role", RBAC, "roles", AGENT),
            Installed::of_namespace("ServiceAccount", "/api/v1", "serviceaccounts", AGENT),
            secret("fairlead-join"),
            Installed {
                has_label: false,
                ..secret("fairlead-identity")
            },
        ];
        let of_roles = Role::IN_CLUSTERS.map(|role| format!("fairlead-{role}"));
        let bindings = [AGENT, "fairlead-facts"].map(str::to_owned);
        for name in bindings.iter().chain(&of_roles) {
            all.push(Installed::of_cluster(
                "ClusterRoleBinding",
                "clusterrolebindings",
                name,
            ));
        }
        for name in CLUSTER_ROLES {
            all.push(Installed::of_cluster("ClusterRole", "clusterroles", name));
        }
        all.push(Installed {
            kind: "Namespace",
            name: DEFAULT_NAMESPACE.to_owned(),
            namespaced: false,
            path: format!("/api/v1/namespaces/{DEFAULT_NAMESPACE}"),
            has_label: false,
        });
        all
    }

    fn is_ours(&self, object: &Value) -> bool {
        !self.has_label || text(object, LABEL) == Some("fairlead")
    }
}

/// What Fairlead has in a cluster.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// To be removed, in this order.
    pub objects: Vec<Installed>,
    /// Left where they are, each with the reason.
    pub left: Vec<String>,
}

/// Looks for the objects of Fairlead's.
///
/// # Errors
/// `FL-4110` for the kubeconfig, `FL-1502` if the API server does not answer or refuses a request.
pub async fn find(cluster: &Objects) -> Result<Inventory, Failure> {
    let mut inventory = Inventory::default();
    for installed in Installed::all() {
        let Some(object) = cluster.get(&installed.path).await? else {
            continue;
        };
        let is_going = text(&object, "/metadata/deletionTimestamp").is_some();
        if is_going {
            inventory
                .left
                .push(format!("{installed}: it is being deleted already"));
        } else if !installed.is_ours(&object) {
            let reason = "it has no label app.kubernetes.io/part-of: fairlead";
            inventory.left.push(format!("{installed}: {reason}"));
        } else {
            inventory.objects.push(installed);
        }
    }
    keep_shared_namespace(cluster, &mut inventory).await?;
    inventory.left.extend(bindings_of_others(cluster).await?);
    Ok(inventory)
}

/// Removes one object. Whether it was there.
///
/// # Errors
/// `FL-1502` if the API server does not answer or refuses.
pub async fn remove(cluster: &Objects, installed: &Installed) -> Result<bool, Failure> {
    cluster.delete(&installed.path).await
}

/// Other workloads in the namespace keep it.
async fn keep_shared_namespace(
    cluster: &Objects,
    inventory: &mut Inventory,
) -> Result<(), Failure> {
    let is_namespace = |installed: &Installed| installed.kind == "Namespace";
    if !inventory.objects.iter().any(is_namespace) {
        return Ok(());
    }
    let mut others = Vec::new();
    for (kind, kinds) in WORKLOADS {
        let path = format!("/apis/apps/v1/namespaces/{DEFAULT_NAMESPACE}/{kinds}");
        let objects = cluster.list(&path).await?.unwrap_or_default();
        let names = objects.iter().filter_map(|it| text(it, NAME));
        let names = names.filter(|name| *name != AGENT);
        others.extend(names.map(|name| format!("{kind} {name}")));
    }
    if !others.is_empty() {
        inventory
            .objects
            .retain(|installed| !is_namespace(installed));
        let reason = format!(
            "Namespace {DEFAULT_NAMESPACE}: {} is in it",
            others.join(", ")
        );
        inventory.left.push(reason);
    }
    Ok(())
}

/// Bindings that people have made themselves to Fairlead's roles or groups.
async fn bindings_of_others(cluster: &Objects) -> Result<Vec<String>, Failure> {
    let own: Vec<String> = Installed::all().into_iter().map(|it| it.path).collect();
    let mut left = Vec::new();
    for (kind, kinds) in [
        ("ClusterRoleBinding", "clusterrolebindings"),
        ("RoleBinding", "rolebindings"),
    ] {
        let bindings = cluster.list(&format!("{RBAC}/{kinds}")).await?;
        for binding in bindings.unwrap_or_default() {
            let (name, namespace) = (
                text(&binding, NAME).unwrap_or_default(),
                text(&binding, "/metadata/namespace"),
            );
            let (path, shown) = match namespace {
                None => (format!("{RBAC}/{kinds}/{name}"), name.to_owned()),
                Some(namespace) => (
                    format!("{RBAC}/namespaces/{namespace}/{kinds}/{name}"),
                    format!("{namespace}/{name}"),
                ),
            };
            if let Some(target) = binds(&binding).filter(|_| !own.contains(&path)) {
                left.push(format!("{kind} {shown}: it binds {target}"));
            }
        }
    }
    Ok(left)
}

fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer)?.as_str()
}

/// The role or the group of Fairlead's that a binding names.
fn binds(binding: &Value) -> Option<String> {
    let role = text(binding, "/roleRef/name").unwrap_or_default();
    if text(binding, "/roleRef/kind") == Some("ClusterRole") && CLUSTER_ROLES.contains(&role) {
        return Some(format!("ClusterRole {role}"));
    }
    let subjects = binding.get("subjects")?.as_array()?.iter();
    let mut groups = subjects.filter_map(|subject| match text(subject, "/kind") {
        Some("Group" | "User") => text(subject, "/name"),
        _ => None,
    });
    let name = groups.find(|name| name.starts_with(NAME_PREFIX))?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_agent_goes_first_and_its_namespace_last() {
        let all = Installed::all();
        let shown: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(shown[0], "Deployment fairlead/fairlead-agent");
        assert_eq!(shown[6], "ClusterRoleBinding fairlead-agent");
        assert_eq!(
            shown.last().unwrap(),
            "Namespace fairlead, with all that is in it"
        );
        assert_eq!(
            all[5].path,
            "/api/v1/namespaces/fairlead/secrets/fairlead-identity"
        );
    }

    #[test]
    fn objects_without_the_label_are_somebody_elses() {
        let role = Installed::of_cluster("ClusterRole", "clusterroles", AGENT);
        let labelled =
            json!({ "metadata": { "labels": { "app.kubernetes.io/part-of": "fairlead" } } });
        assert!(role.is_ours(&labelled) && !role.is_ours(&json!({ "metadata": {} })));
    }

    #[test]
    fn bindings_to_fairleads_roles_and_groups_are_found() {
        let binding = |role: &str, subject: Value| json!({ "roleRef": { "kind": "ClusterRole", "name": role }, "subjects": [subject] });
        let group = |name: &str| json!({ "kind": "Group", "name": name });
        for (binding, expected) in [
            (
                binding(
                    "fairlead-facts-helm",
                    json!({ "kind": "ServiceAccount", "name": "x" }),
                ),
                Some("ClusterRole fairlead-facts-helm"),
            ),
            (
                binding("edit", group("fairlead:tenant:t-a:viewer")),
                Some("fairlead:tenant:t-a:viewer"),
            ),
            (binding("edit", group("fairleads")), None),
            (
                json!({ "roleRef": { "kind": "ClusterRole", "name": "view" } }),
                None,
            ),
        ] {
            assert_eq!(binds(&binding).as_deref(), expected, "{binding}");
        }
    }
}
