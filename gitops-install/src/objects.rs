//! Small changes of JSON objects.

use serde_json::{Map, Value, json};

/// Kinds of objects of the whole cluster, among those of the tools.
const CLUSTER_KINDS: [&str; 4] = [
    "Namespace",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
];

/// Annotation for objects whose health is no health of the installation: a failed sync is reported by the fact `gitops`.
pub(crate) fn without_health() -> Value {
    json!({ fairlead_manifests::HEALTH_ANNOTATION: fairlead_manifests::HEALTH_IGNORED })
}

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

pub(crate) fn kind(object: &Value) -> &str {
    text(object, "/kind")
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(crate) fn is_of_cluster(object: &Value) -> bool {
    CLUSTER_KINDS.contains(&kind(object))
}

/// Map at a field; an absent one is made.
pub(crate) fn map<'a>(object: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    let fields = object.as_object_mut()?;
    let map = fields.entry(field).or_insert_with(|| json!({}));
    map.as_object_mut()
}

/// List at a field; an absent one is made.
pub(crate) fn list<'a>(object: &'a mut Value, field: &str) -> Option<&'a mut Vec<Value>> {
    let fields = object.as_object_mut()?;
    let list = fields.entry(field).or_insert_with(|| json!([]));
    list.as_array_mut()
}

/// Sets fields of a map within an object, like `data` or `metadata.labels`.
pub(crate) fn set(object: &mut Value, path: &[&str], values: &[(&str, Value)]) {
    let mut place = object;
    for field in path {
        let Some(fields) = place.as_object_mut() else {
            return;
        };
        place = fields.entry(*field).or_insert_with(|| json!({}));
    }
    if let Value::Object(fields) = place {
        for (name, value) in values {
            fields.insert((*name).to_owned(), value.clone());
        }
    }
}
