//! Objects of an installation: a function of the pinned manifest and of the settings.

use fairlead_api::gitops::{DesiredTool, GitOpsTool};
use serde_json::{Value, json};

use crate::{
    ToolManifest, argocd, flux,
    keys::{KeyProblem, check_keys},
    namespace,
    objects::{kind, map, name, set, text},
    workloads::{self, CA_MAP},
};

/// Service of type `ExternalName` with the Git server.
const GIT_SERVICE: &str = "fairlead-git";
const POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";

/// Installation that cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// No tool, or the manifest of another one.
    #[error("the manifest is that of another tool")]
    Tool,
    /// Keys or a mode that the tool would ignore.
    #[error(transparent)]
    Keys(#[from] KeyProblem),
}

/// Inputs of an installation in one cluster.
#[derive(Debug, Clone, Copy)]
pub struct Installation<'a> {
    /// Settings.
    pub desired: &'a DesiredTool,
    /// URL of the catalog's repository.
    pub url: &'a str,
    /// False for an adopted tool: its controllers stay as they are.
    pub with_controllers: bool,
}

/// Objects of the installation. Their order has no meaning.
///
/// # Errors
/// [`RenderError`]
pub fn render(
    installation: &Installation<'_>,
    manifest: &ToolManifest,
) -> Result<Vec<Value>, RenderError> {
    let desired = installation.desired;
    if manifest.tool != desired.tool {
        return Err(RenderError::Tool);
    }
    if let Some(verify) = &desired.verify {
        check_keys(desired.tool, verify)?;
    }
    let namespace = namespace(desired.tool).ok_or(RenderError::Tool)?;
    let mut objects = match (installation.with_controllers, desired.tool) {
        (false, _) | (true, GitOpsTool::None) => Vec::new(),
        (true, GitOpsTool::Flux) => flux::controllers(manifest.objects.clone()),
        (true, GitOpsTool::Argocd) => argocd::controllers(manifest.objects.clone()),
    };
    for object in &mut objects {
        workloads::adapt(object, &desired.installation);
        if kind(object) == "Namespace" {
            let restricted = [(POD_SECURITY, Value::from("restricted"))];
            set(object, &["metadata", "labels"], &restricted);
        }
        without_status(object);
    }
    let catalog = match desired.tool {
        GitOpsTool::Flux => flux::catalog(installation, &objects),
        GitOpsTool::Argocd => argocd::catalog(installation),
        GitOpsTool::None => Vec::new(),
    };
    for object in catalog.into_iter().chain(of_site(installation, namespace)) {
        put(&mut objects, object);
    }
    Ok(objects)
}

/// Adds an object, or replaces the one of the same name.
fn put(objects: &mut Vec<Value>, object: Value) {
    let is_same = |it: &Value| kind(it) == kind(&object) && name(it) == name(&object);
    objects.retain(|it| !is_same(it));
    objects.push(object);
}

/// Objects for the network of the site.
fn of_site(installation: &Installation<'_>, namespace: &str) -> Vec<Value> {
    let settings = &installation.desired.installation;
    let mut objects = Vec::new();
    if let Some(pem) = settings
        .ca
        .as_ref()
        .filter(|_| installation.with_controllers)
    {
        objects.push(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": CA_MAP, "namespace": namespace },
            "data": { "ca.crt": pem },
        }));
    }
    if settings.git_service == Some(true) {
        objects.push(json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": GIT_SERVICE, "namespace": namespace },
            "spec": { "type": "ExternalName", "externalName": host(installation.url) },
        }));
    }
    objects
}

/// Host of a URL `ssh://[USER@]HOST[:PORT]/...`.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    host.split(':').next().unwrap_or_default()
}

/// Generated definitions have an empty status, which belongs to the API server.
fn without_status(object: &mut Value) {
    if kind(object) != "CustomResourceDefinition" {
        return;
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    let is_null = text(object, "/metadata/creationTimestamp").is_empty();
    if let Some(metadata) = map(object, "metadata").filter(|_| is_null) {
        metadata.remove("creationTimestamp");
    }
}

#[cfg(test)]
mod tests;
