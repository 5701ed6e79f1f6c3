//! Flux: source-controller, kustomize-controller and helm-controller, with the source of the catalog.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::gitops::{CommitVerification, VerifyMode};
use serde_json::{Map, Value, json};

use crate::{
    keys::KeyForm,
    objects::{kind, name, set, text, without_health},
    render::Installation,
};

pub(crate) const NAMESPACE: &str = "flux-system";
/// Name of source, Kustomization and Secret, as `flux bootstrap` has it.
const CATALOG: &str = "flux-system";
/// Secret with the keys of commits.
const VERIFY_SECRET: &str = "fairlead-commit-keys";
const COMPONENT: &str = "/metadata/labels/app.kubernetes.io~1component";
/// Parts that read and apply the catalog. Notifications would open a port to other namespaces.
const COMPONENTS: [&str; 3] = [
    "source-controller",
    "kustomize-controller",
    "helm-controller",
];
/// Definition of Kustomizations, and the schema of a field in one of its versions.
const KUSTOMIZATIONS: &str = "kustomizations.kustomize.toolkit.fluxcd.io";
const DELETION_POLICY: &str = "/schema/openAPIV3Schema/properties/spec/properties/deletionPolicy";
/// Policies of notification-controller.
const WEBHOOKS_POLICY: &str = "allow-webhooks";
const EVENTS_FLAG: &str = "--events-addr=";

/// Upstream objects without other components, and without references to them.
pub(crate) fn controllers(upstream: Vec<Value>) -> Vec<Value> {
    let has_place = |object: &Value| {
        let component = text(object, COMPONENT);
        let is_known = component.is_empty() || COMPONENTS.contains(&component);
        is_known && name(object) != WEBHOOKS_POLICY
    };
    let mut objects: Vec<Value> = upstream.into_iter().filter(has_place).collect();
    let accounts = objects.iter().filter(|it| kind(it) == "ServiceAccount");
    let accounts: BTreeSet<String> = accounts.map(|it| name(it).to_owned()).collect();
    for object in &mut objects {
        match kind(object) {
            "ClusterRoleBinding" => {
                let subjects = object.get_mut("subjects").and_then(Value::as_array_mut);
                if let Some(subjects) = subjects {
                    subjects.retain(|it| accounts.contains(text(it, "/name")));
                }
            }
            "Deployment" => without_events(object),
            _ => {}
        }
    }
    objects
}

/// Nobody receives events.
fn without_events(deployment: &mut Value) {
    let containers = deployment.pointer_mut("/spec/template/spec/containers");
    let containers = containers.and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        if let Some(arguments) = container.get_mut("args").and_then(Value::as_array_mut) {
            arguments.retain(|it| !it.as_str().is_some_and(|it| it.starts_with(EVENTS_FLAG)));
        }
    }
}

/// Source of the catalog, and its Kustomization. `controllers` are those of the same installation.
pub(crate) fn catalog(installation: &Installation<'_>, controllers: &[Value]) -> Vec<Value> {
    let settings = &installation.desired.installation;
    let metadata = json!({
        "name": CATALOG,
        "namespace": NAMESPACE,
        "annotations": without_health(),
    });
    let mut source = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "GitRepository",
        "metadata": metadata,
        "spec": {
            "interval": "1m",
            "url": installation.url,
            "ref": { "branch": settings.branch.as_deref().unwrap_or("main") },
            "secretRef": { "name": CATALOG },
        },
    });
    let path = settings.path.as_deref().unwrap_or_default();
    let mut kustomization = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": metadata,
        "spec": {
            "interval": "10m",
            "path": format!("./{}", path.trim_matches('/')),
            "prune": true,
            "sourceRef": { "kind": "GitRepository", "name": CATALOG },
        },
    });
    if controllers.iter().any(has_deletion_policy) {
        // Flux would delete all objects of the catalog with its Kustomization: at the uninstall of the agent, for example.
        let policy = [("deletionPolicy", "Orphan".into())];
        set(&mut kustomization, &["spec"], &policy);
    }
    let mut objects = Vec::new();
    if let Some(verify) = &installation.desired.verify {
        let mode = match verify.mode {
            VerifyMode::Head => "HEAD",
            VerifyMode::Tag => "Tag",
            VerifyMode::TagAndHead => "TagAndHEAD",
        };
        let by = json!({ "mode": mode, "secretRef": { "name": VERIFY_SECRET } });
        set(&mut source, &["spec"], &[("verify", by)]);
        objects.push(commit_keys(verify));
    }
    objects.extend([source, kustomization]);
    objects
}

/// True for the definition of Kustomizations with a deletion policy, which Flux has since version 2.5.
fn has_deletion_policy(object: &Value) -> bool {
    let versions = object
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .filter(|_| name(object) == KUSTOMIZATIONS);
    let mut versions = versions.into_iter().flatten();
    versions.any(|it| it.pointer(DELETION_POLICY).is_some())
}

/// Public keys in a Secret: source-controller reads them from nothing else.
fn commit_keys(verify: &CommitVerification) -> Value {
    let fields: BTreeMap<String, String> = verify
        .keys
        .iter()
        .map(|(name, key)| {
            let suffix = match KeyForm::of(key) {
                Some(KeyForm::Ssh) => "sshpub",
                Some(KeyForm::OpenPgp) | None => "asc",
            };
            (format!("{name}.{suffix}"), STANDARD.encode(key))
        })
        .collect();
    let fields: Map<String, Value> = fields.into_iter().map(|(k, v)| (k, v.into())).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": { "name": VERIFY_SECRET, "namespace": NAMESPACE },
        "data": fields,
    })
}
