//! Secrets in texts for people: keys without values.

use serde_json::{Map, Value};

use crate::object::ObjectKey;

/// Text in the place of a value.
pub const HIDDEN: &str = "(hidden)";
/// Text in the place of a new value that differs from the old one.
pub const HIDDEN_CHANGED: &str = "(hidden, changed)";
/// Annotation of `kubectl apply` with the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Hides the values of a Secret before a diff: `old` and `new` show the keys, and the values that differ. Other objects
/// stay.
pub fn hide_secret_values(old: Option<&mut Value>, new: Option<&mut Value>) {
    let is_secret = |object: &Value| ObjectKey::of(object).is_some_and(|it| it.is("", "Secret"));
    let mut old = old.filter(|it| is_secret(it));
    let mut new = new.filter(|it| is_secret(it));
    for field in ["data", "stringData"] {
        let before = old.as_deref().and_then(|it| it.get(field)).cloned();
        if let Some(new) = new.as_deref_mut() {
            hide(new, field, before.as_ref());
        }
        if let Some(old) = old.as_deref_mut() {
            hide(old, field, None);
        }
    }
    for object in [old, new].into_iter().flatten() {
        let annotations = object.pointer_mut("/metadata/annotations");
        if let Some(value) = annotations.and_then(|it| it.get_mut(LAST_APPLIED)) {
            *value = Value::from(HIDDEN);
        }
    }
}

/// Hides the values of a map; those that differ from `before` are marked.
fn hide(object: &mut Value, field: &str, before: Option<&Value>) {
    let Some(values) = object.get_mut(field) else {
        return;
    };
    let Value::Object(values) = values else {
        *values = Value::Object(Map::new());
        return;
    };
    for (key, value) in values {
        let old = before.and_then(|it| it.get(key));
        let is_changed = old.is_some_and(|it| it != value);
        *value = Value::from(if is_changed { HIDDEN_CHANGED } else { HIDDEN });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(data: Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "data": data,
            "metadata": {"name": "a", "annotations": {LAST_APPLIED: "hunter2", "x": "y"}},
        })
    }

    #[test]
    fn keys_stay_and_values_go() {
        let mut old = secret(json!({"a": "1", "b": "2", "gone": "3"}));
        let mut new = secret(json!({"a": "1", "b": "hunter2", "new": "4"}));
        hide_secret_values(Some(&mut old), Some(&mut new));
        assert_eq!(
            old["data"],
            json!({"a": HIDDEN, "b": HIDDEN, "gone": HIDDEN})
        );
        assert_eq!(
            new["data"],
            json!({"a": HIDDEN, "b": HIDDEN_CHANGED, "new": HIDDEN})
        );
        assert!(!old.to_string().contains("hunter2") && !new.to_string().contains("hunter2"));
        assert_eq!(new["metadata"]["annotations"]["x"], "y");
        let mut broken = secret(json!("hunter2"));
        hide_secret_values(None, Some(&mut broken));
        assert!(!broken.to_string().contains("hunter2"));
    }

    #[test]
    fn other_objects_stay() {
        let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1"}});
        let before = map.clone();
        hide_secret_values(Some(&mut map), None);
        assert_eq!(map, before);
    }
}
