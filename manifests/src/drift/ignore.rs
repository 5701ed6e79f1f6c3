//! Fields that others may change: they are sent with their live value.
//!
//! A field that is left out falls to its default, because we own it.

use fairlead_api::delivery::{IgnoreRule, ObjectTarget};
use serde::{Deserialize, Serialize};
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

/// Live value of a field that others may change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveField {
    /// JSON pointer.
    pub pointer: String,
    /// Value; none if the live object has no such field.
    pub value: Option<Value>,
    /// True if the owner of the manifest owns the field: left out, it would fall to its default.
    pub is_own: bool,
}

/// Live values of an object's fields at JSON pointers.
#[must_use]
pub fn live_fields(live: &Value, pointers: &[String], owner: &FieldOwner) -> Vec<LiveField> {
    let own = owner
        .entry(live)
        .map(|it| fields_of(it.fields))
        .unwrap_or_default();
    let pointers = pointers.iter().filter(|it| it.starts_with('/'));
    pointers
        .map(|pointer| LiveField {
            pointer: pointer.clone(),
            value: live.pointer(pointer).cloned(),
            is_own: FieldPath::of_pointer(pointer).is_some_and(|it| has_below(&own, &it)),
        })
        .collect()
}

impl LiveField {
    /// Puts the value into a manifest. A field that neither the manifest sets nor its owner owns is left out; a field that
    /// the live object has not is removed.
    pub fn keep_in(&self, manifest: &mut Value) {
        let pointer = &self.pointer;
        match (manifest.pointer_mut(pointer), &self.value) {
            (Some(field), Some(value)) => field.clone_from(value),
            (Some(_), None) => remove(manifest, pointer),
            (None, Some(value)) if self.is_own => insert(manifest, pointer, value.clone()),
            (None, _) => {}
        }
    }
}

/// Replaces values at JSON pointers of a manifest by live ones, as [`LiveField::keep_in`] does.
pub fn keep_live_values(
    manifest: &mut Value,
    live: &Value,
    pointers: &[String],
    owner: &FieldOwner,
) {
    for field in live_fields(live, pointers, owner) {
        field.keep_in(manifest);
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
