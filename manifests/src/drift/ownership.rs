//! Moves fields of other managers into our entry, by a JSON patch of `managedFields`.
//!
//! Two cases need it. An adopted object keeps fields of its former manager for ever otherwise. A forced apply is refused
//! (422) if another manager set the other member of a union, or changed the key of a list item.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    managed::{FieldOwner, ManagedEntry, entry},
    paths::{FieldPath, fields_of, fields_to_json},
};
use crate::object::text;

/// Managers of objects that were made by hand or by Helm.
const ADOPTABLE: [&str; 5] = [
    "kubectl-client-side-apply",
    "kubectl-create",
    "before-first-apply",
    "helm",
    "Helm",
];
/// Start of the manager name of each bundle.
const BUNDLE_MANAGER: &str = "fairlead/";

/// True for entries that an adoption takes over: those of `kubectl apply`, of Helm, and of another bundle.
#[must_use]
pub fn is_adoptable(entry: &ManagedEntry<'_>) -> bool {
    entry.subresource.is_empty()
        && (ADOPTABLE.contains(&entry.manager)
            || (entry.operation == "Apply" && entry.manager.starts_with(BUNDLE_MANAGER)))
}

/// JSON patch that moves the fields of the selected entries into the entry of `owner`. None if there is nothing to move.
///
/// Only entries with the version of our entry are moved, because paths differ between versions. The patch fails with 409
/// if the object has changed since it was read.
#[must_use]
pub fn take_over(
    live: &Value,
    owner: &FieldOwner,
    selected: &dyn Fn(&ManagedEntry<'_>) -> bool,
) -> Option<Value> {
    move_paths(live, owner, &|entry, _| selected(entry))
}

/// JSON patch that moves fields of all others below the named lists into the entry of `owner`, for a correction that was
/// refused. `causes` are fields of the refusal, like `spec.ports[1].name`; without a list in them, all lists of the
/// manifest count.
#[must_use]
pub fn take_over_lists(
    live: &Value,
    owner: &FieldOwner,
    manifest: &Value,
    causes: &[String],
) -> Option<Value> {
    let lists: Vec<_> = causes.iter().filter_map(|it| first_list(it)).collect();
    move_paths(live, owner, &|entry, path| {
        entry.subresource != "status" && enters_list(path, manifest, &lists)
    })
}

/// Path of the first list in a field of a refusal, like `spec.ports` in `spec.ports[1].name`.
fn first_list(field: &str) -> Option<FieldPath> {
    let (list, _) = field.split_once('[')?;
    let elements = list.split('.').filter(|it| !it.is_empty());
    Some(FieldPath(elements.map(|it| format!("f:{it}")).collect()))
}

/// True if the path goes into a list of the manifest, and the list is a named one.
fn enters_list(path: &FieldPath, manifest: &Value, lists: &[FieldPath]) -> bool {
    let mut node = manifest;
    let mut list = FieldPath::default();
    for element in &path.0 {
        let Some(name) = element.strip_prefix("f:") else {
            return node.is_array() && (lists.is_empty() || lists.contains(&list));
        };
        let Some(child) = node.get(name) else {
            return false;
        };
        node = child;
        list.0.push(element.clone());
    }
    false
}

fn move_paths(
    live: &Value,
    owner: &FieldOwner,
    selected: &dyn Fn(&ManagedEntry<'_>, &FieldPath) -> bool,
) -> Option<Value> {
    let own = owner.entry(live);
    let mut version = own.map(|it| it.api_version);
    let mut paths = own.map(|it| fields_of(it.fields)).unwrap_or_default();
    let mut others = Vec::new();
    let mut moved = BTreeSet::new();
    let mut time = own.map(|it| it.time);
    let raw = live.pointer("/metadata/managedFields")?.as_array()?;
    for raw in raw {
        let Some(entry) = entry(raw) else {
            continue;
        };
        if owner.has(&entry) {
            continue;
        }
        let is_version = version.is_none_or(|it| it == entry.api_version);
        let (taken, kept): (BTreeSet<_>, BTreeSet<_>) = fields_of(entry.fields)
            .into_iter()
            .partition(|path| is_version && selected(&entry, path));
        if taken.is_empty() {
            others.push(raw.clone());
            continue;
        }
        version = Some(entry.api_version);
        time = time.or(Some(entry.time));
        moved.extend(taken);
        if !kept.is_empty() {
            let mut rest = raw.clone();
            if let Some(fields) = rest.get_mut("fieldsV1") {
                *fields = fields_to_json(&kept);
            }
            others.push(rest);
        }
    }
    if moved.is_empty() {
        return None;
    }
    paths.extend(moved);
    let mut entry = json!({
        "manager": owner.manager,
        "operation": owner.operation,
        "apiVersion": version?,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields_to_json(&paths),
    });
    if let (Some(time), Value::Object(entry)) = (time.filter(|it| !it.is_empty()), &mut entry) {
        entry.insert("time".to_owned(), json!(time));
    }
    others.push(entry);
    replacement(live, others)
}

/// JSON patch that sets the version of the entry of `owner`. An entry with a version that its definition no longer has
/// makes the API server refuse every apply with 500.
#[must_use]
pub fn rewrite_version(live: &Value, owner: &FieldOwner, api_version: &str) -> Option<Value> {
    let mut raw = live.pointer("/metadata/managedFields")?.as_array()?.clone();
    let mut is_changed = false;
    for entry in &mut raw {
        let is_own = text(entry, "/manager") == Some(&owner.manager)
            && text(entry, "/operation") == Some(&owner.operation);
        let is_other = text(entry, "/apiVersion") != Some(api_version);
        if let Some(version) = entry.get_mut("apiVersion").filter(|_| is_own && is_other) {
            *version = json!(api_version);
            is_changed = true;
        }
    }
    is_changed.then(|| replacement(live, raw)).flatten()
}

fn replacement(live: &Value, entries: Vec<Value>) -> Option<Value> {
    let version = text(live, "/metadata/resourceVersion")?;
    Some(json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
    ]))
}
