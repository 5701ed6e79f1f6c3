//! Removes the objects of the install manifest and of the agent from a cluster. Objects of others stay and are
//! reported. Missing objects are no error, so that a second run completes the first.

use fairlead_api::{impersonation::NAME_PREFIX, resources::Role};
use fairlead_apiserver::{KubeObjects, ObjectsError};
use serde_json::Value;

use crate::config::DEFAULT_NAMESPACE;

const RBAC_PATH: &str = "/apis/rbac.authorization.k8s.io/v1";
const NETWORKING_PATH: &str = "/apis/networking.k8s.io/v1";
const ADMISSION_PATH: &str = "/apis/admissionregistration.k8s.io/v1";
/// Guard of the namespace: kinds with their names in paths.
const POLICIES: [(&str, &str); 2] = [
    (
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
    ),
    ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
];
const POLICY_NAMES: [&str; 2] = ["fairlead-namespace", DELIVERY_NAMESPACE];
/// Namespace of deliveries, and name of their objects.
const DELIVERY_NAMESPACE: &str = "fairlead-delivery";
const DEPLOYER_BINDING: &str = "fairlead-deployer";
/// Bindings in a namespace of the site operator's choice.
const NAMESPACE_BINDINGS: [&str; 2] = ["fairlead-operator", "fairlead-viewer"];
const NAME_POINTER: &str = "/metadata/name";
/// Labels with the value `fairlead`: of installed objects, and of the Secrets of a GitOps tool that the agent made.
const PART_OF_POINTER: &str = "/metadata/labels/app.kubernetes.io~1part-of";
const MANAGED_BY_POINTER: &str = "/metadata/labels/app.kubernetes.io~1managed-by";
/// Annotation with the value `fairlead`: the install manifest names this namespace of a GitOps tool.
const MANIFEST_POINTER: &str = "/metadata/annotations/fairlead~1manifest";
const MANIFEST_ANNOTATION: &str = "fairlead/manifest";
/// GitOps tools: their namespaces, and the agent's Secrets in them.
const GITOPS_SECRETS: [(&str, [&str; 2]); 2] = [
    ("flux-system", ["flux-system", "fairlead-gitops-keys"]),
    ("argocd", ["fairlead-catalog", "fairlead-gitops-keys"]),
];
/// Service and network policy of the Git proxy.
const GIT_PROXY_NAME: &str = "fairlead-git-proxy";
/// ConfigMap with certificate authorities of the site.
const SITE_CA_NAME: &str = "fairlead-site-ca";
/// Rights in those namespaces: of the agent, and of the account that installs the tool.
const GITOPS_RIGHTS: [&str; 2] = ["fairlead-gitops", GITOPS_INSTALLER];
const GITOPS_INSTALLER: &str = "fairlead-gitops-installer";
const AGENT_NAME: &str = "fairlead-agent";
const CLUSTER_ROLES: [&str; 5] = [
    GITOPS_INSTALLER,
    AGENT_NAME,
    "fairlead-facts",
    "fairlead-facts-helm",
    "fairlead-deliverer",
];
/// Objects of the agent in its namespace, the Deployment first.
const AGENT_OBJECTS: [(&str, &str, &str, &str); 10] = [
    ("Deployment", "/apis/apps/v1", "deployments", AGENT_NAME),
    (
        "PodDisruptionBudget",
        "/apis/policy/v1",
        "poddisruptionbudgets",
        AGENT_NAME,
    ),
    (
        "NetworkPolicy",
        NETWORKING_PATH,
        "networkpolicies",
        AGENT_NAME,
    ),
    ("Service", "/api/v1", "services", GIT_PROXY_NAME),
    (
        "NetworkPolicy",
        NETWORKING_PATH,
        "networkpolicies",
        GIT_PROXY_NAME,
    ),
    ("RoleBinding", RBAC_PATH, "rolebindings", AGENT_NAME),
    ("Role", RBAC_PATH, "roles", AGENT_NAME),
    ("ServiceAccount", "/api/v1", "serviceaccounts", AGENT_NAME),
    ("ConfigMap", "/api/v1", "configmaps", SITE_CA_NAME),
    ("Secret", "/api/v1", "secrets", "fairlead-join"),
];
/// Kinds of workload that keep the namespace, except for the agent itself.
const WORKLOADS: [(&str, &str); 3] = [
    ("Deployment", "deployments"),
    ("StatefulSet", "statefulsets"),
    ("DaemonSet", "daemonsets"),
];

/// Kinds that show the use of a namespace, each with the names that Kubernetes and OpenShift make everywhere.
const CONTENTS: [(&str, &str, &str, &[&str]); 7] = [
    ("Deployment", "/apis/apps/v1", "deployments", &[]),
    ("StatefulSet", "/apis/apps/v1", "statefulsets", &[]),
    ("DaemonSet", "/apis/apps/v1", "daemonsets", &[]),
    ("Pod", "/api/v1", "pods", &[]),
    ("Secret", "/api/v1", "secrets", &[]),
    (
        "ConfigMap",
        "/api/v1",
        "configmaps",
        &["kube-root-ca.crt", "openshift-service-ca.crt"],
    ),
    (
        "ServiceAccount",
        "/api/v1",
        "serviceaccounts",
        &["default", "builder", "deployer"],
    ),
];

/// Object of Fairlead in a cluster. Displays as `ClusterRole fairlead-agent`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledObject {
    kind: &'static str,
    name: String,
    /// None: an object of the cluster.
    namespace: Option<String>,
    path: String,
    /// Pointer to a label or an annotation that must be `fairlead`; without it the object belongs to others.
    label: Option<&'static str>,
    /// True: a namespace of a GitOps tool, which stays while others use it.
    only_if_unused: bool,
}

/// Result of a removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removal {
    /// The API server accepted the deletion.
    Deleted,
    /// There was no such object.
    Missing,
    /// It stays; the text is the cause.
    Kept(String),
}

impl std::fmt::Display for InstalledObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let InstalledObject { kind, name, .. } = self;
        match &self.namespace {
            Some(namespace) => write!(f, "{kind} {namespace}/{name}"),
            None if self.only_if_unused => write!(f, "Namespace {name}, if it is empty then"),
            None if *kind == "Namespace" => write!(f, "Namespace {name}, with all that is in it"),
            None => write!(f, "{kind} {name}"),
        }
    }
}

impl InstalledObject {
    fn of_cluster(kind: &'static str, api: &str, kinds: &str, name: &str) -> Self {
        InstalledObject {
            kind,
            name: name.to_owned(),
            namespace: None,
            path: format!("{api}/{kinds}/{name}"),
            label: Some(PART_OF_POINTER),
            only_if_unused: false,
        }
    }

    fn of_namespace(kind: &'static str, api: &str, kinds: &str, name: &str) -> Self {
        Self::within(DEFAULT_NAMESPACE, kind, api, kinds, name)
    }

    fn within(namespace: &str, kind: &'static str, api: &str, kinds: &str, name: &str) -> Self {
        InstalledObject {
            kind,
            name: name.to_owned(),
            namespace: Some(namespace.to_owned()),
            path: format!("{api}/namespaces/{namespace}/{kinds}/{name}"),
            label: Some(PART_OF_POINTER),
            only_if_unused: false,
        }
    }

    /// Objects in the namespaces of GitOps tools.
    fn of_gitops() -> impl Iterator<Item = Self> {
        GITOPS_SECRETS.into_iter().flat_map(|(namespace, secrets)| {
            let secret = |name| InstalledObject {
                label: Some(MANAGED_BY_POINTER),
                ..Self::within(namespace, "Secret", "/api/v1", "secrets", name)
            };
            let rights = GITOPS_RIGHTS.into_iter().flat_map(move |name| {
                let right = |kind, kinds| Self::within(namespace, kind, RBAC_PATH, kinds, name);
                [right("RoleBinding", "rolebindings"), right("Role", "roles")]
            });
            secrets.map(secret).into_iter().chain(rights)
        })
    }

    /// Objects in the namespace of the agent.
    fn of_agent() -> Vec<Self> {
        let objects = AGENT_OBJECTS
            .map(|(kind, api, kinds, name)| Self::of_namespace(kind, api, kinds, name));
        let identity = Self {
            label: None,
            ..Self::of_namespace("Secret", "/api/v1", "secrets", "fairlead-identity")
        };
        objects.into_iter().chain([identity]).collect()
    }

    /// Objects in their order of removal: the agent first, its namespace last.
    fn all() -> Vec<Self> {
        let mut all = Self::of_agent();
        let of_roles = Role::IN_CLUSTERS.map(|role| format!("fairlead-{role}"));
        let bindings = [
            AGENT_NAME,
            "fairlead-facts",
            DEPLOYER_BINDING,
            GITOPS_INSTALLER,
        ];
        let bindings = bindings.map(str::to_owned);
        for name in POLICY_NAMES {
            for (kind, kinds) in POLICIES {
                let policy = InstalledObject::of_cluster(kind, ADMISSION_PATH, kinds, name);
                all.push(policy);
            }
        }
        for name in bindings.iter().chain(&of_roles) {
            all.push(InstalledObject::of_cluster(
                "ClusterRoleBinding",
                RBAC_PATH,
                "clusterrolebindings",
                name,
            ));
        }
        for name in CLUSTER_ROLES {
            all.push(InstalledObject::of_cluster(
                "ClusterRole",
                RBAC_PATH,
                "clusterroles",
                name,
            ));
        }
        all.extend(Self::of_gitops());
        let of_tools = GITOPS_SECRETS.map(|(name, _)| InstalledObject {
            label: Some(MANIFEST_POINTER),
            only_if_unused: true,
            ..Self::of_cluster("Namespace", "/api/v1", "namespaces", name)
        });
        all.extend(of_tools);
        // Journals and locks go with it. Objects of bundles stay.
        all.push(InstalledObject {
            kind: "Namespace",
            name: DELIVERY_NAMESPACE.to_owned(),
            namespace: None,
            path: format!("/api/v1/namespaces/{DELIVERY_NAMESPACE}"),
            label: Some(PART_OF_POINTER),
            only_if_unused: false,
        });
        all.push(InstalledObject {
            kind: "Namespace",
            name: DEFAULT_NAMESPACE.to_owned(),
            namespace: None,
            path: format!("/api/v1/namespaces/{DEFAULT_NAMESPACE}"),
            label: None,
            only_if_unused: false,
        });
        all
    }

    /// True for a namespace. Namespaces go last, after delivered objects: one of them has the journals.
    #[must_use]
    pub fn is_namespace(&self) -> bool {
        self.kind == "Namespace"
    }

    fn is_ours(&self, object: &Value) -> bool {
        let label = self.label.map(|pointer| text(object, pointer));
        label.is_none_or(|value| value == Some("fairlead"))
    }
}

/// Objects of Fairlead in a cluster.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct UninstallPlan {
    /// Objects to remove, in this order.
    pub objects: Vec<InstalledObject>,
    /// Objects to keep, each with the reason.
    pub skipped: Vec<String>,
}

/// Finds the objects of Fairlead.
///
/// # Errors
///
/// [`ObjectsError`]
pub async fn find(cluster: &KubeObjects) -> Result<UninstallPlan, ObjectsError> {
    let mut inventory = UninstallPlan::default();
    for installed in InstalledObject::all() {
        let Some(object) = cluster.get(&installed.path).await? else {
            continue;
        };
        let is_going = text(&object, "/metadata/deletionTimestamp").is_some();
        if is_going {
            inventory
                .skipped
                .push(format!("{installed}: it is being deleted already"));
        } else if !installed.is_ours(&object) {
            // A GitOps tool without the agent's help has a Secret of the same name.
            if installed.label == Some(MANAGED_BY_POINTER) || installed.only_if_unused {
                continue;
            }
            let reason = "it has no label app.kubernetes.io/part-of: fairlead";
            inventory.skipped.push(format!("{installed}: {reason}"));
        } else {
            inventory.objects.push(installed);
        }
    }
    keep_shared_namespace(cluster, &mut inventory).await?;
    add_bindings(cluster, &mut inventory).await?;
    Ok(inventory)
}

/// Removes one object. A namespace of a GitOps tool stays with a note while it has objects of others.
///
/// # Errors
///
/// [`ObjectsError`]
pub async fn remove(
    cluster: &KubeObjects,
    installed: &InstalledObject,
) -> Result<Removal, ObjectsError> {
    if installed.only_if_unused
        && let Some(other) = first_in(cluster, &installed.name).await?
    {
        unmark(cluster, &installed.path).await?;
        return Ok(Removal::Kept(format!("{other} is in it")));
    }
    Ok(match cluster.delete(&installed.path).await? {
        true => Removal::Deleted,
        false => Removal::Missing,
    })
}

/// Removes the annotation of the install manifest from a namespace that stays.
async fn unmark(cluster: &KubeObjects, path: &str) -> Result<(), ObjectsError> {
    let Some(mut namespace) = cluster.get(path).await? else {
        return Ok(());
    };
    let annotations = namespace.pointer_mut("/metadata/annotations");
    let annotations = annotations.and_then(Value::as_object_mut);
    match annotations.and_then(|it| it.remove(MANIFEST_ANNOTATION)) {
        Some(_) => cluster.replace(path, &namespace).await,
        None => Ok(()),
    }
}

/// First object in a namespace that Kubernetes itself does not make in each namespace.
async fn first_in(cluster: &KubeObjects, namespace: &str) -> Result<Option<String>, ObjectsError> {
    for (kind, api, kinds, made) in CONTENTS {
        let path = format!("{api}/namespaces/{namespace}/{kinds}");
        let objects = cluster.list(&path).await?.unwrap_or_default();
        let is_token =
            |it: &Value| text(it, "/type") == Some("kubernetes.io/service-account-token");
        let others = objects.iter().filter(|it| !is_token(it));
        let mut names = others.filter_map(|it| text(it, NAME_POINTER));
        if let Some(name) = names.find(|name| !made.contains(name)) {
            return Ok(Some(format!("{kind} {name}")));
        }
    }
    Ok(None)
}

/// Keeps the namespace if it contains other workloads.
async fn keep_shared_namespace(
    cluster: &KubeObjects,
    inventory: &mut UninstallPlan,
) -> Result<(), ObjectsError> {
    let is_namespace = |installed: &InstalledObject| {
        installed.kind == "Namespace" && installed.name == DEFAULT_NAMESPACE
    };
    if !inventory.objects.iter().any(is_namespace) {
        return Ok(());
    }
    let mut others = Vec::new();
    for (kind, kinds) in WORKLOADS {
        let path = format!("/apis/apps/v1/namespaces/{DEFAULT_NAMESPACE}/{kinds}");
        let objects = cluster.list(&path).await?.unwrap_or_default();
        let names = objects.iter().filter_map(|it| text(it, NAME_POINTER));
        let names = names.filter(|name| *name != AGENT_NAME);
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
        inventory.skipped.push(reason);
    }
    Ok(())
}

/// Adds the bindings of operators in namespaces, and keeps bindings of others to Fairlead's roles or groups.
async fn add_bindings(
    cluster: &KubeObjects,
    inventory: &mut UninstallPlan,
) -> Result<(), ObjectsError> {
    let own: Vec<String> = InstalledObject::all()
        .into_iter()
        .map(|it| it.path)
        .collect();
    for (kind, kinds) in [
        ("ClusterRoleBinding", "clusterrolebindings"),
        ("RoleBinding", "rolebindings"),
    ] {
        let bindings = cluster.list(&format!("{RBAC_PATH}/{kinds}")).await?;
        for binding in bindings.unwrap_or_default() {
            let (name, namespace) = (
                text(&binding, NAME_POINTER).unwrap_or_default(),
                text(&binding, "/metadata/namespace"),
            );
            let (path, shown) = match namespace {
                None => (format!("{RBAC_PATH}/{kinds}/{name}"), name.to_owned()),
                Some(namespace) => (
                    format!("{RBAC_PATH}/namespaces/{namespace}/{kinds}/{name}"),
                    format!("{namespace}/{name}"),
                ),
            };
            let installed = InstalledObject {
                kind,
                name: name.to_owned(),
                namespace: namespace.map(str::to_owned),
                path,
                label: Some(PART_OF_POINTER),
                only_if_unused: false,
            };
            // Those of deliveries go with their namespace.
            if own.contains(&installed.path) || namespace == Some(DELIVERY_NAMESPACE) {
                continue;
            }
            let is_installed = namespace.is_some() && NAMESPACE_BINDINGS.contains(&name);
            if is_installed && installed.is_ours(&binding) {
                inventory.objects.insert(0, installed);
            } else if let Some(target) = binds(&binding) {
                let kept = format!("{kind} {shown}: it binds {target}");
                inventory.skipped.push(kept);
            }
        }
    }
    Ok(())
}

fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer)?.as_str()
}

/// Fairlead's role or group that a binding refers to.
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
mod tests;
