//! Fields that others may change: they are sent with their live value.
//!
//! A field that is left out falls to its default, because we own it.

use fairlead_api::delivery::{IgnoreRule, ObjectTarget};
use serde_json::{Map, Value};

use super::{
    managed::{FieldOwner, entries, has_below},
    paths::{FieldPath, fields_of, unescape},
};
use crate::{object::ObjectKey, patch::matches};

const REPLICAS_POINTER: &str = "/spec/replicas";

/// JSON pointers of an object that others may change. With an autoscaler these include the replicas that it has set
/// through the subresource `scale`.
#[must_use]
pub fn ignored_pointers(
    rules: &[IgnoreRule],
    key: &ObjectKey,
    live: Option<&Value>,
    has_autoscaler: bool,
) -> Vec<String> {
    let mut pointers: Vec<_> = rules
        .iter()
        .filter(|rule| {
            let target = ObjectTarget {
                kind: rule.kind.clone(),
                group: rule.group.clone(),
                name: rule.name.clone(),
                namespace: rule.namespace.clone(),
            };
            matches(&target, key)
        })
        .flat_map(|rule| rule.pointers.iter().cloned())
        .collect();
    if has_autoscaler && live.is_some_and(is_scaled) {
        pointers.push(REPLICAS_POINTER.to_owned());
    }
    pointers.sort();
    pointers.dedup();
    pointers
}

/// True if somebody owns the replicas through the subresource `scale`.
fn is_scaled(live: &Value) -> bool {
    let Some(replicas) = FieldPath::of_pointer(REPLICAS_POINTER) else {
        return false;
    };
    entries(live).any(|it| it.subresource == "scale" && has_below(&fields_of(it.fields), &replicas))
}

/// Replaces values at JSON pointers of a manifest by live ones. A field that neither the manifest sets nor `owner` owns
/// is left out; a field that the live object has not is removed.
pub fn keep_live_values(
    manifest: &mut Value,
    live: &Value,
    pointers: &[String],
    owner: &FieldOwner,
) {
    let own = owner
        .entry(live)
        .map(|it| fields_of(it.fields))
        .unwrap_or_default();
    for pointer in pointers.iter().filter(|it| it.starts_with('/')) {
        let is_own = FieldPath::of_pointer(pointer).is_some_and(|it| has_below(&own, &it));
        match (manifest.pointer_mut(pointer), live.pointer(pointer)) {
            (Some(field), Some(value)) => field.clone_from(value),
            (Some(_), None) => remove(manifest, pointer),
            (None, Some(value)) if is_own => insert(manifest, pointer, value.clone()),
            (None, _) => {}
        }
    }
}

fn remove(manifest: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else {
        return;
    };
    if let Some(Value::Object(parent)) = manifest.pointer_mut(parent) {
        parent.remove(&unescape(name));
    }
}

/// Sets a field of maps, and makes missing maps on the way. Nothing changes if a list is on the way.
fn insert(manifest: &mut Value, pointer: &str, value: Value) {
    let Some((parents, name)) = pointer
        .strip_prefix('/')
        .map(|it| it.rsplit_once('/').unwrap_or(("", it)))
    else {
        return;
    };
    let mut node = manifest;
    for element in parents.split('/').filter(|it| !it.is_empty()) {
        let Value::Object(map) = node else {
            return;
        };
        node = map
            .entry(unescape(element))
            .or_insert_with(|| Value::Object(Map::new()));
    }
    if let Value::Object(map) = node {
        map.insert(unescape(name), value);
    }
}
