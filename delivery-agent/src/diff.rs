//! Diff of a bundle with its cluster: a server-side dry run of each object, as text for people.
//!
//! Nothing is changed. Values of Secrets are hidden, and values of inputs are masked.

mod text;
mod yaml;

use std::{collections::BTreeSet, sync::Arc};

use fairlead_api::delivery::{DriftedObject, IgnoreRule};
use fairlead_manifests::{
    GENERATION_ANNOTATION, ObjectKey, RequestContext, failure, hide_secret_values,
};
use fairlead_masking::Masker;
use serde_json::Value;

use crate::{
    drift::{DeliveryOwner, ObjectApi, beside_fields, keep_ignored},
    kube::{ApiResource, KubeError},
};
use text::DiffText;

/// Size of the whole text. The runs' logs have the same limit.
pub const MAX_DIFF_BYTES: usize = 1 << 20;
/// Fields of `metadata` that each write changes, or that mean nothing for people.
const HIDDEN_METADATA: [&str; 6] = [
    "managedFields",
    "resourceVersion",
    "generation",
    "uid",
    "creationTimestamp",
    "selfLink",
];

/// An object as it would be applied.
pub struct DiffObject {
    /// Identity.
    pub key: ObjectKey,
    /// Resource of its kind; `None` if only the bundle itself defines the kind.
    pub resource: Option<Arc<ApiResource>>,
    /// The object.
    pub manifest: Value,
}

/// Objects to compare.
pub struct DiffInput<'a> {
    /// Objects as they would be applied, in order.
    pub objects: Vec<DiffObject>,
    /// Objects that would be deleted.
    pub removed: Vec<(ObjectKey, Arc<ApiResource>)>,
    /// Owner of the fields.
    pub owner: DeliveryOwner,
    /// Fields that others may change.
    pub ignore: &'a [IgnoreRule],
    /// User of the client.
    pub user: &'a str,
    /// Removes secret values from the text.
    pub masker: Option<&'a Masker>,
}

/// A comparison with the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiffReport {
    /// Unified diffs of all differing objects, and a last line with the numbers.
    pub text: String,
    /// Objects that would be created.
    pub new: u32,
    /// Objects that would change.
    pub changed: u32,
    /// Objects that would be deleted.
    pub deleted: u32,
    /// Objects that stay as they are.
    pub same: u32,
    /// Sentences of objects that the API server refuses.
    pub refused: Vec<String>,
    /// Fields that others have set beside those of the bundle.
    pub beside: Vec<DriftedObject>,
}

/// Compares all objects. A refused object is part of the report.
///
/// # Errors
/// The API server does not answer.
pub async fn diff(api: &dyn ObjectApi, input: &DiffInput<'_>) -> Result<DiffReport, KubeError> {
    let mut report = DiffReport::default();
    let mut text = DiffText::new(input.masker);
    // Objects in a namespace that does not exist yet are new, and a dry run of them is refused.
    let namespaces: BTreeSet<_> = new_namespaces(api, input).await?;
    for object in &input.objects {
        one(api, input, object, &namespaces, &mut report, &mut text).await?;
    }
    for (key, resource) in &input.removed {
        if let Some(mut live) = api.get(&resource.object_path(key)).await? {
            clean(&mut live);
            hide_secret_values(Some(&mut live), None);
            report.deleted += 1;
            text.add(key, Some(&live), None);
        }
    }
    report
        .refused
        .iter()
        .for_each(|it| text.line(&format!("! {it}")));
    for it in &report.beside {
        let manager = it.manager.as_deref().unwrap_or_default();
        let fields = it.fields.join(", ");
        text.line(&format!(
            "# beside: {manager} sets {fields} of {}",
            it.object
        ));
    }
    let DiffReport {
        new,
        changed,
        deleted,
        same,
        ..
    } = report;
    let refused = match report.refused.len() {
        0 => String::new(),
        count => format!(", {count} refused"),
    };
    report.text = text.finish(&format!(
        "{new} new, {changed} changed, {deleted} deleted, {same} same{refused}"
    ));
    Ok(report)
}

/// Namespaces that the bundle would make.
async fn new_namespaces(
    api: &dyn ObjectApi,
    input: &DiffInput<'_>,
) -> Result<BTreeSet<String>, KubeError> {
    let mut new = BTreeSet::new();
    for object in &input.objects {
        let Some(resource) = object
            .resource
            .as_ref()
            .filter(|_| object.key.is("", "Namespace"))
        else {
            continue;
        };
        match api.get(&resource.object_path(&object.key)).await {
            Ok(Some(_)) => {}
            Ok(None) => drop(new.insert(object.key.name.clone())),
            Err(KubeError::Status { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(new)
}

async fn one(
    api: &dyn ObjectApi,
    input: &DiffInput<'_>,
    object: &DiffObject,
    new_namespaces: &BTreeSet<String>,
    report: &mut DiffReport,
    text: &mut DiffText<'_>,
) -> Result<(), KubeError> {
    let namespace = object.key.namespace.as_ref();
    let is_new_place = namespace.is_some_and(|it| new_namespaces.contains(it));
    let Some(resource) = object.resource.as_ref().filter(|_| !is_new_place) else {
        add_new(object, object.manifest.clone(), report, text);
        return Ok(());
    };
    let path = resource.object_path(&object.key);
    let refusal = |error: KubeError, verb: &str| match error {
        KubeError::Status { status, body } => {
            let context = RequestContext {
                key: &object.key,
                kind: &resource.kind,
                resource: &resource.plural,
                verb,
                user: input.user,
            };
            Ok(failure(status, &body, &context).sentence)
        }
        error => Err(error),
    };
    let live = match api.get(&path).await {
        Ok(live) => live,
        Err(error) => {
            report.refused.push(refusal(error, "get")?);
            return Ok(());
        }
    };
    let owner = input.owner.applied();
    let mut manifest = object.manifest.clone();
    if let Some(live) = &live {
        keep_ignored(api, input.ignore, &mut manifest, live, &owner).await;
        let fields = beside_fields(&object.key, live, &input.owner.of_live(live));
        report.beside.extend(fields);
    }
    let applied = match api.apply(&path, &owner.manager, true, &manifest).await {
        Ok(applied) => applied,
        Err(error) => {
            report.refused.push(refusal(error, "patch")?);
            return Ok(());
        }
    };
    match live {
        None => add_new(object, applied, report, text),
        Some(live) => compare(object, live, applied, report, text),
    }
    Ok(())
}

fn add_new(object: &DiffObject, mut new: Value, report: &mut DiffReport, text: &mut DiffText<'_>) {
    clean(&mut new);
    hide_secret_values(None, Some(&mut new));
    report.new += 1;
    text.add(&object.key, None, Some(&new));
}

fn compare(
    object: &DiffObject,
    mut live: Value,
    mut applied: Value,
    report: &mut DiffReport,
    text: &mut DiffText<'_>,
) {
    clean(&mut live);
    clean(&mut applied);
    if live == applied {
        report.same += 1;
        return;
    }
    hide_secret_values(Some(&mut live), Some(&mut applied));
    report.changed += 1;
    text.add(&object.key, Some(&live), Some(&applied));
}

/// Removes fields that mean nothing for people.
fn clean(object: &mut Value) {
    let Value::Object(map) = object else {
        return;
    };
    map.remove("status");
    if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
        for field in HIDDEN_METADATA {
            metadata.remove(field);
        }
        // Each generation has another one.
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.remove(GENERATION_ANNOTATION);
        }
        for field in ["annotations", "labels"] {
            if metadata
                .get(field)
                .and_then(Value::as_object)
                .is_some_and(serde_json::Map::is_empty)
            {
                metadata.remove(field);
            }
        }
    }
}

#[cfg(test)]
mod tests;
