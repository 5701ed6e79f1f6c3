//! Rights of the account that installs a tool: the objects of the installation by name, and no others.
//!
//! Server-side apply creates an object by name, so that RBAC can restrict `create`, too. The tool itself is bound to
//! `cluster-admin` or to rules as wide, and so the right to bind these rules is as wide in the end: the names protect all
//! other objects of the cluster from mistakes, not from the hub.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::objects::{is_of_cluster, kind, name, text};

/// Verbs on a named object.
const NAMED_VERBS: [&str; 5] = ["get", "create", "patch", "update", "delete"];
/// Verbs to notice changes. No content of Secrets is read with them.
const WATCH_VERBS: [&str; 2] = ["list", "watch"];
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// RBAC rules of the account.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InstallerRights {
    /// Rules of a ClusterRole.
    pub cluster: Vec<Value>,
    /// Rules of a Role in the namespace of the tool.
    pub namespaced: Vec<Value>,
}

/// API group and resource, like `apps` and `deployments`.
type Resource = (String, String);

/// Rights for these objects.
#[must_use]
pub fn rights(objects: &[Value]) -> InstallerRights {
    let (of_cluster, of_namespace): (Vec<_>, Vec<_>) =
        objects.iter().partition(|it| is_of_cluster(it));
    let mut cluster = rules(&of_cluster);
    cluster.extend(escalation(&of_cluster));
    // Repairs are Events; those of objects without a namespace are in `default`.
    cluster.push(repair_rule("events", "create"));
    let mut namespaced = rules(&of_namespace);
    namespaced.extend(escalation(&of_namespace));
    // Pods tell a slow start from a failed one.
    namespaced.push(repair_rule("pods", "list"));
    InstallerRights {
        cluster,
        namespaced,
    }
}

/// Rule of repairs on objects whose names are unknown before.
fn repair_rule(resource: &str, verb: &str) -> Value {
    json!({ "apiGroups": [""], "resources": [resource], "verbs": [verb] })
}

fn rules(objects: &[&Value]) -> Vec<Value> {
    let mut names: BTreeMap<Resource, BTreeSet<&str>> = BTreeMap::new();
    for object in objects {
        let of_resource = names.entry(resource(object)).or_default();
        of_resource.insert(name(object));
    }
    let mut rules = Vec::new();
    for ((group, resource), names) in names {
        rules.push(json!({
            "apiGroups": [group],
            "resources": [resource],
            "verbs": NAMED_VERBS,
            "resourceNames": names,
        }));
        if resource != "secrets" {
            rules.push(json!({
                "apiGroups": [group],
                "resources": [resource],
                "verbs": WATCH_VERBS,
            }));
        }
    }
    rules
}

/// Writing a role needs its rules or `escalate`; writing a binding needs those of its role or `bind`.
fn escalation(objects: &[&Value]) -> Vec<Value> {
    let mut written: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut bound: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for object in objects {
        match kind(object) {
            "ClusterRole" => written.entry("clusterroles").or_default(),
            "Role" => written.entry("roles").or_default(),
            "ClusterRoleBinding" | "RoleBinding" => {
                let resource = match text(object, "/roleRef/kind") {
                    "ClusterRole" => "clusterroles",
                    _ => "roles",
                };
                let role = text(object, "/roleRef/name");
                bound.entry(resource).or_default().insert(role);
                continue;
            }
            _ => continue,
        }
        .insert(name(object));
    }
    let rule = |verb: &str, resource: &str, names: BTreeSet<&str>| {
        json!({
            "apiGroups": [RBAC_GROUP],
            "resources": [resource],
            "verbs": [verb],
            "resourceNames": names,
        })
    };
    let written = written
        .into_iter()
        .map(|(it, names)| rule("escalate", it, names));
    let bound = bound.into_iter().map(|(it, names)| rule("bind", it, names));
    written.chain(bound).collect()
}

fn resource(object: &Value) -> Resource {
    let api_version = text(object, "/apiVersion");
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let singular = kind(object).to_ascii_lowercase();
    let plural = match singular.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{singular}s"),
    };
    (group.to_owned(), plural)
}

#[cfg(test)]
mod tests {
    use fairlead_api::gitops::{DesiredTool, GitOpsTool, ToolInstallation};

    use super::*;
    use crate::{Installation, ToolManifest, render};

    fn of(tool: GitOpsTool) -> InstallerRights {
        let desired = DesiredTool {
            tool,
            adopt: false,
            installation: ToolInstallation::default(),
            verify: None,
        };
        let installation = Installation {
            desired: &desired,
            url: "ssh://git@git.example/a.git",
            with_controllers: true,
        };
        let manifest = ToolManifest::embedded(tool).unwrap();
        rights(&render(&installation, &manifest).unwrap())
    }

    #[test]
    fn each_write_names_its_objects() {
        for tool in [GitOpsTool::Flux, GitOpsTool::Argocd] {
            let InstallerRights {
                cluster,
                namespaced,
            } = of(tool);
            for rule in cluster.iter().chain(&namespaced) {
                let is_watch = rule["verbs"] == json!(WATCH_VERBS);
                let is_repair =
                    [repair_rule("events", "create"), repair_rule("pods", "list")].contains(rule);
                let is_named = rule["resourceNames"].is_array();
                assert_ne!(is_watch || is_repair, is_named, "{rule}");
                assert!(
                    !is_watch || rule["resources"] != json!(["secrets"]),
                    "{rule}"
                );
                assert!(!rule.to_string().contains("\"*\""), "{rule}");
            }
        }
    }

    #[test]
    fn plurals_are_those_of_the_api() {
        let flux = of(GitOpsTool::Flux);
        let resources = |rules: &[Value]| -> BTreeSet<String> {
            let names = rules.iter().map(|it| text(it, "/resources/0").to_owned());
            names.collect()
        };
        let expected = [
            "deployments",
            "gitrepositories",
            "kustomizations",
            "networkpolicies",
            "pods",
            "resourcequotas",
            "serviceaccounts",
            "services",
        ];
        assert_eq!(
            resources(&flux.namespaced),
            expected.map(str::to_owned).into()
        );
        let bind = flux
            .cluster
            .iter()
            .find(|it| it["verbs"] == json!(["bind"]))
            .unwrap();
        let roles = json!(["cluster-admin", "crd-controller-flux-system"]);
        assert_eq!(bind["resourceNames"], roles);
    }
}
