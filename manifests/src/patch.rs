//! Patches of a bundle: JSON patch (RFC 6902) and merge patch (RFC 7396).

use fairlead_api::delivery::{ObjectTarget, Patch};
use serde_json::Value;

use crate::object::ObjectKey;

/// A patch that cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The target matches no object.
    #[error("patch {number} selects no object: {target}")]
    NoObject {
        /// Number of the patch, from 1.
        number: usize,
        /// Its target, as text.
        target: String,
    },
    /// The patch has none or both of `json` and `merge`.
    #[error("patch {0} must have either json or merge")]
    Form(usize),
    /// `json` is no list of operations.
    #[error("patch {number} is no JSON patch: {cause}")]
    Syntax {
        /// Number of the patch, from 1.
        number: usize,
        /// Cause.
        cause: String,
    },
    /// An operation fails.
    #[error("patch {number} of {object}: {cause}")]
    Operation {
        /// Number of the patch, from 1.
        number: usize,
        /// Patched object.
        object: Box<ObjectKey>,
        /// Cause.
        cause: String,
    },
    /// The patched object has no `apiVersion`, `kind` or `metadata.name`.
    #[error("patch {number} removes the identity of {object}")]
    Identity {
        /// Number of the patch, from 1.
        number: usize,
        /// Object before the patch.
        object: Box<ObjectKey>,
    },
}

/// Applies all patches in order. A later patch sees the result of the earlier ones.
///
/// # Errors
/// The first failed patch; the objects are then partly patched.
pub fn apply_patches(objects: &mut [Value], patches: &[Patch]) -> Result<(), PatchError> {
    for (index, patch) in patches.iter().enumerate() {
        apply(objects, patch, index + 1)?;
    }
    Ok(())
}

fn apply(objects: &mut [Value], patch: &Patch, number: usize) -> Result<(), PatchError> {
    let operations = match (&patch.json, &patch.merge) {
        (Some(json), None) => {
            let operations = serde_json::from_value(Value::Array(json.clone()));
            Some(operations.map_err(|error| PatchError::Syntax {
                number,
                cause: error.to_string(),
            })?)
        }
        (None, Some(_)) => None,
        _ => return Err(PatchError::Form(number)),
    };
    let operations: Option<json_patch::Patch> = operations;
    let mut is_used = false;
    for object in objects {
        let Some(key) = ObjectKey::of(object).filter(|key| matches(&patch.target, key)) else {
            continue;
        };
        is_used = true;
        if let Some(operations) = &operations {
            json_patch::patch(object, operations).map_err(|error| PatchError::Operation {
                number,
                object: Box::new(key.clone()),
                cause: error.to_string(),
            })?;
        } else if let Some(merge) = &patch.merge {
            json_patch::merge(object, merge);
        }
        if ObjectKey::of(object).is_none() {
            let object = Box::new(key);
            return Err(PatchError::Identity { number, object });
        }
    }
    if !is_used {
        let target = describe(&patch.target);
        return Err(PatchError::NoObject { number, target });
    }
    Ok(())
}

/// True if an object matches all fields of the target.
#[must_use]
pub fn matches(target: &ObjectTarget, key: &ObjectKey) -> bool {
    let equal =
        |wanted: &Option<String>, actual: &str| wanted.as_ref().is_none_or(|it| it == actual);
    equal(&target.kind, &key.kind)
        && equal(&target.group, &key.group)
        && equal(&target.name, &key.name)
        && equal(
            &target.namespace,
            key.namespace.as_deref().unwrap_or_default(),
        )
}

fn describe(target: &ObjectTarget) -> String {
    let fields = [
        ("kind", &target.kind),
        ("group", &target.group),
        ("namespace", &target.namespace),
        ("name", &target.name),
    ];
    let fields: Vec<_> = fields
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name} {}", value.as_ref()?)))
        .collect();
    if fields.is_empty() {
        return "the bundle is empty".to_owned();
    }
    fields.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn objects() -> Vec<Value> {
        let object = |kind: &str, name: &str| json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": {"replicas": 1}});
        vec![
            object("Deployment", "web"),
            object("Deployment", "api"),
            object("StatefulSet", "db"),
        ]
    }

    fn patch(value: Value) -> Patch {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn patches_change_the_selected_objects_in_order() {
        let mut objects = objects();
        let patches = [
            patch(
                json!({"target": {"kind": "Deployment"}, "json": [{"op": "replace", "path": "/spec/replicas", "value": 3}]}),
            ),
            patch(
                json!({"target": {"name": "web", "namespace": "shop", "group": "apps"}, "merge": {"spec": {"replicas": null, "paused": true}}}),
            ),
        ];
        apply_patches(&mut objects, &patches).unwrap();
        let specs: Vec<_> = objects.iter().map(|it| it["spec"].clone()).collect();
        assert_eq!(
            specs,
            [
                json!({"paused": true}),
                json!({"replicas": 3}),
                json!({"replicas": 1})
            ]
        );
    }

    #[test]
    fn failed_patch_is_named() {
        for (value, text) in [
            (
                json!({"target": {"kind": "Job", "name": "x"}, "merge": {}}),
                "patch 1 selects no object: kind Job, name x",
            ),
            (
                json!({"json": [], "merge": {}}),
                "patch 1 must have either json or merge",
            ),
            (json!({}), "patch 1 must have either json or merge"),
            (
                json!({"target": {"name": "db"}, "merge": {"metadata": null}}),
                "patch 1 removes the identity of StatefulSet shop/db",
            ),
        ] {
            let error = apply_patches(&mut objects(), &[patch(value)]).unwrap_err();
            assert_eq!(error.to_string(), text);
        }
        let missing =
            json!({"target": {"name": "db"}, "json": [{"op": "remove", "path": "/spec/x"}]});
        let error = apply_patches(&mut objects(), &[patch(missing)]).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("patch 1 of StatefulSet shop/db: "),
            "{error}"
        );
        let wrong = json!({"json": [{"op": "swap", "path": "/"}]});
        assert!(matches!(
            apply_patches(&mut objects(), &[patch(wrong)]),
            Err(PatchError::Syntax { number: 1, .. })
        ));
    }
}
