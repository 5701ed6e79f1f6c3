//! Checks of patches and JSON pointers.

use fairlead_api::delivery::{BundleFields, BundleKind, ObjectTarget, Patch};
use serde_json::Value;

use super::{
    error::{FieldError, Path, Problem},
    helm::check_values,
};
use crate::variables::UsedVariables;

/// Longest JSON patch, in operations.
const MAX_OPERATIONS: usize = 500;

pub(super) fn check_patch(
    path: &Path<'_>,
    patch: &Patch,
    fields: &BundleFields,
) -> Result<(), FieldError> {
    // Helm renders the objects itself.
    let is_manifests = fields.kind == BundleKind::Manifests;
    path.require(is_manifests, || Problem::Kind("helm"))?;
    let target = path.field("target");
    target.require(patch.target != ObjectTarget::default(), || {
        Problem::Required
    })?;
    match (&patch.json, &patch.merge) {
        (Some(operations), None) => {
            let path = path.field("json");
            path.require(!operations.is_empty(), || Problem::Required)?;
            path.at_most(operations.len(), MAX_OPERATIONS)?;
            for (index, operation) in operations.iter().enumerate() {
                check_operation(&path.item(index), operation)?;
            }
        }
        (None, Some(merge)) => {
            let path = path.field("merge");
            path.require(merge.is_object(), || Problem::Patch("a map is required"))?;
        }
        _ => return Err(path.error(Problem::ExactlyOne("json and merge"))),
    }
    let values = patch.json.iter().flatten().chain(&patch.merge);
    check_values(path, values.clone())?;
    let mut used = UsedVariables::default();
    values.for_each(|value| used.add_value(value));
    for secret in &fields.secrets {
        let is_used = used.iter().any(|(name, _)| *name == secret.destination);
        path.require(!is_used, || {
            Problem::SecretInPatch(secret.destination.clone())
        })?;
    }
    Ok(())
}

/// An operation of RFC 6902.
fn check_operation(path: &Path<'_>, operation: &Value) -> Result<(), FieldError> {
    let Value::Object(map) = operation else {
        return Err(path.error(Problem::Patch("an operation is a map")));
    };
    let (needs, others): (&str, &[&str]) = match map.get("op").and_then(Value::as_str) {
        Some("add" | "replace" | "test") => ("value", &["op", "path", "value"]),
        Some("move" | "copy") => ("from", &["op", "path", "from"]),
        Some("remove") => ("path", &["op", "path"]),
        _ => {
            let problem =
                Problem::Patch("one of add, remove, replace, move, copy, test is required");
            return Err(path.field("op").error(problem));
        }
    };
    path.field(needs)
        .require(map.contains_key(needs), || Problem::Required)?;
    for key in map.keys() {
        let is_known = others.contains(&key.as_str());
        path.field(key).require(is_known, || {
            Problem::Patch("the operation does not have it")
        })?;
    }
    for key in ["path", "from"] {
        match map.get(key) {
            Some(Value::String(pointer)) => check_pointer(&path.field(key), pointer)?,
            None if key == "from" => {}
            _ => return Err(path.field(key).error(Problem::Required)),
        }
    }
    Ok(())
}

/// A JSON pointer of RFC 6901.
pub(super) fn check_pointer(path: &Path<'_>, pointer: &str) -> Result<(), FieldError> {
    let mut escapes = pointer.split('~').skip(1);
    let is_pointer = (pointer.is_empty() || pointer.starts_with('/'))
        && escapes.all(|rest| rest.starts_with(['0', '1']));
    path.require(is_pointer, || {
        Problem::Pointer(pointer.chars().take(60).collect())
    })
}
