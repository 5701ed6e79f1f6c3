//! Argo CD: application-controller, repo-server and redis of a "core" installation, with the Application of the catalog.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::{
    keys::key_id,
    objects::{is_of_cluster, kind, name, set, text, without_health},
    render::Installation,
};

pub(crate) const NAMESPACE: &str = "argocd";
/// Name of project and Application.
const CATALOG: &str = "fairlead-catalog";
const SETTINGS_MAP: &str = "argocd-cm";
const HOSTS_MAP: &str = "argocd-ssh-known-hosts-cm";
const KEYS_MAP: &str = "argocd-gpg-keys-cm";
const NAME_LABEL: &str = "/metadata/labels/app.kubernetes.io~1name";
/// Parts that other manifests of the project have: user interface, sign-in, events.
const LEFT_OUT: [&str; 4] = [
    "argocd-server",
    "argocd-dex-server",
    "argocd-notifications-controller",
    "argocd-applicationset-controller",
];

/// Upstream objects without user interface, sign-in and known hosts of the project.
pub(crate) fn controllers(upstream: Vec<Value>) -> Vec<Value> {
    let is_left_out = |object: &Value| {
        let label = text(object, NAME_LABEL);
        LEFT_OUT
            .iter()
            .any(|part| label == *part || name(object).starts_with(part))
    };
    let mut objects: Vec<Value> = upstream.into_iter().filter(|it| !is_left_out(it)).collect();
    let has_namespace = objects.iter().any(|it| kind(it) == "Namespace");
    if !has_namespace {
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
        objects.insert(0, namespace);
    }
    for object in &mut objects {
        if !is_of_cluster(object) {
            set(object, &["metadata"], &[("namespace", NAMESPACE.into())]);
        }
        if kind(object) != "ConfigMap" {
            continue;
        }
        match name(object) {
            // No administrator, and no user interface to sign in to.
            SETTINGS_MAP => set(object, &["data"], &[("admin.enabled", "false".into())]),
            // The agent writes the registry's keys of the one repository. Others are not trusted.
            HOSTS_MAP => {
                if let Some(fields) = object.as_object_mut() {
                    fields.remove("data");
                }
            }
            _ => {}
        }
    }
    objects
}

/// Project and Application of the catalog. The project `default` allows nothing.
pub(crate) fn catalog(installation: &Installation<'_>) -> Vec<Value> {
    let settings = &installation.desired.installation;
    let verify = installation.desired.verify.as_ref();
    let everything = json!([{ "group": "*", "kind": "*" }]);
    let here = "https://kubernetes.default.svc";
    let mut project = json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": { "name": CATALOG, "namespace": NAMESPACE },
        "spec": {
            "description": "Catalog of the cluster",
            "sourceRepos": [installation.url],
            "destinations": [{ "server": here, "namespace": "*" }],
            "clusterResourceWhitelist": everything,
            "namespaceResourceWhitelist": everything,
        },
    });
    let keys = verify.map(|it| it.keys.values().filter_map(|key| Some((key_id(key)?, key))));
    let keys: Vec<(String, &String)> = keys.into_iter().flatten().collect();
    if !keys.is_empty() {
        let ids: BTreeSet<&String> = keys.iter().map(|(id, _)| id).collect();
        let ids: Vec<Value> = ids.into_iter().map(|id| json!({ "keyID": id })).collect();
        set(&mut project, &["spec"], &[("signatureKeys", ids.into())]);
    }
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {
            "name": CATALOG,
            "namespace": NAMESPACE,
            "annotations": without_health(),
        },
        "spec": {
            "project": CATALOG,
            "source": {
                "repoURL": installation.url,
                "path": settings.path.as_deref().unwrap_or("."),
                "targetRevision": settings.branch.as_deref().unwrap_or("main"),
                "directory": { "recurse": true },
            },
            "destination": { "server": here, "namespace": NAMESPACE },
            "syncPolicy": { "automated": { "prune": true, "selfHeal": true } },
        },
    });
    let mut objects = vec![project, application];
    if installation.with_controllers {
        objects.push(json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "AppProject",
            "metadata": { "name": "default", "namespace": NAMESPACE },
            "spec": { "sourceRepos": [], "destinations": [] },
        }));
    }
    if !keys.is_empty() {
        let data: Map<String, Value> = keys
            .into_iter()
            .map(|(id, key)| (id, key.clone().into()))
            .collect();
        objects.push(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": KEYS_MAP, "namespace": NAMESPACE },
            "data": data,
        }));
    }
    objects
}
