//! Adoption of a tool that others have installed: the objects of the catalog as they were, in a Secret, and their return.
//!
//! Objects are saved before the first change. They return when the settings adopt the tool no longer. The Secret is kept
//! until a later round finds all objects returned, because a delivery that ends may write one of them once more.

use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::gitops::GitOpsTool;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::{
    kube::{ObjectError, Objects},
    secrets::{Found, ToolSecret, owned_secret, owned_version},
    tool::{ARGOCD_HOSTS, Layout},
};

/// Secret with the objects before the adoption.
pub(crate) const SAVED: &str = "fairlead-gitops-adopted";
const FIELD: &str = "objects";

const FLUX_KUSTOMIZATION: &str =
    "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/flux-system";
const ARGOCD_APPLICATION: &str =
    "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/fairlead-catalog";
const ARGOCD_PROJECT: &str =
    "/apis/argoproj.io/v1alpha1/namespaces/argocd/appprojects/fairlead-catalog";
/// Fields of the API server.
const SERVER_FIELDS: [&str; 6] = [
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "generation",
    "managedFields",
    "deletionTimestamp",
];

/// Objects before the adoption.
#[derive(Debug, Clone)]
pub(crate) struct Saved {
    version: String,
    objects: Vec<SavedObject>,
}

/// Object before the adoption; `None` if there was none.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SavedObject {
    path: String,
    object: Option<Value>,
}

fn paths(layout: &Layout) -> Vec<String> {
    let secret = layout.secret_path(layout.secret);
    match layout.tool {
        GitOpsTool::Flux => vec![
            secret,
            layout.source.to_owned(),
            FLUX_KUSTOMIZATION.to_owned(),
        ],
        GitOpsTool::Argocd => vec![
            secret,
            ARGOCD_HOSTS.to_owned(),
            ARGOCD_PROJECT.to_owned(),
            ARGOCD_APPLICATION.to_owned(),
        ],
        GitOpsTool::None => Vec::new(),
    }
}

/// Reads the saved objects. An install manifest without adoption grants no right to them.
pub(crate) async fn read(objects: &Objects, layout: &Layout) -> Result<Option<Saved>, ObjectError> {
    match read_as_admin(objects, layout).await {
        Err(ObjectError::Forbidden { .. }) => Ok(None),
        other => other,
    }
}

/// As [`read`], where a missing right is an error.
pub(crate) async fn read_as_admin(
    objects: &Objects,
    layout: &Layout,
) -> Result<Option<Saved>, ObjectError> {
    let secret = objects.get(&layout.secret_path(SAVED)).await?;
    Ok(secret.as_ref().and_then(parse))
}

fn parse(secret: &Value) -> Option<Saved> {
    let text = secret.get("data")?.get(FIELD)?.as_str()?;
    Some(Saved {
        version: owned_version(secret)?,
        objects: serde_json::from_slice(&STANDARD.decode(text).ok()?).ok()?,
    })
}

/// Saves the objects, and makes place for the agent's Secret.
pub(crate) async fn take_over(
    objects: &Objects,
    layout: &Layout,
    saved: Option<&Saved>,
) -> Result<(), ObjectError> {
    if saved.is_none() {
        let mut list = Vec::new();
        for path in paths(layout) {
            let object = objects.get(&path).await?.map(cleaned);
            list.push(SavedObject { path, object });
        }
        let data = json!({ FIELD: STANDARD.encode(json!(list).to_string()) });
        let secret = owned_secret((layout.namespace, SAVED), data);
        objects.create(&layout.secrets_path(), &secret).await?;
        info!("objects of the adopted GitOps tool saved");
    }
    let path = layout.secret_path(layout.secret);
    let live = objects.get(&path).await?;
    if let (Found::Foreign, Some(version)) = (
        ToolSecret::read(layout, live.as_ref()),
        live.as_ref().and_then(version),
    ) {
        objects.delete(&path, &version).await?;
    }
    Ok(())
}

/// Returns objects that differ. True if none did: then the saved ones are deleted.
pub(crate) async fn restore(
    objects: &Objects,
    layout: &Layout,
    saved: &Saved,
) -> Result<bool, ObjectError> {
    let mut differs = false;
    for SavedObject { path, object } in &saved.objects {
        let live = objects.get(path).await?;
        if live.clone().map(cleaned) == *object {
            continue;
        }
        differs = true;
        restore_one(objects, path, live.as_ref(), object.as_ref()).await?;
    }
    if differs {
        warn!("objects of the adopted GitOps tool returned");
        return Ok(false);
    }
    objects
        .delete(&layout.secret_path(SAVED), &saved.version)
        .await?;
    info!("adoption of the GitOps tool undone");
    Ok(true)
}

async fn restore_one(
    objects: &Objects,
    path: &str,
    live: Option<&Value>,
    saved: Option<&Value>,
) -> Result<(), ObjectError> {
    let live_version = live.and_then(version);
    let collection = path.rsplit_once('/').map_or(path, |(parent, _)| parent);
    // The type of a Secret cannot change.
    let is_secret = path.contains("/secrets/");
    match (live_version, saved) {
        (None, None) => Ok(()),
        (Some(version), None) => objects.delete(path, &version).await,
        (None, Some(saved)) => objects.create(collection, saved).await,
        (Some(version), Some(saved)) if is_secret => {
            objects.delete(path, &version).await?;
            objects.create(collection, saved).await
        }
        (Some(version), Some(saved)) => {
            let mut object = saved.clone();
            if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                metadata.insert("resourceVersion".to_owned(), version.into());
            }
            objects.replace(path, &object).await
        }
    }
}

fn version(object: &Value) -> Option<String> {
    let version = object.pointer("/metadata/resourceVersion")?.as_str()?;
    Some(version.to_owned())
}

/// Object as its author has it.
fn cleaned(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.remove("status");
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            for field in SERVER_FIELDS {
                metadata.remove(field);
            }
            // Requests for a sync are no part of the source.
            if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
                annotations.remove("reconcile.fluxcd.io/requestedAt");
                if annotations.is_empty() {
                    metadata.remove("annotations");
                }
            }
        }
    }
    object
}

#[cfg(test)]
pub(crate) mod tests;
