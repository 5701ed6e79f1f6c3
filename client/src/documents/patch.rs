//! Merge patches between documents.

use serde_json::{Map, Value};

/// JSON merge patch (RFC 7396) of objects.
pub(super) fn merged(now: &Map<String, Value>, patch: &Map<String, Value>) -> Map<String, Value> {
    let mut merged = now.clone();
    for (name, value) in patch {
        match value {
            Value::Null => drop(merged.remove(name)),
            Value::Object(inner) => {
                let before = merged.get(name).and_then(Value::as_object);
                let inner = self::merged(before.unwrap_or(&Map::new()), inner);
                merged.insert(name.clone(), inner.into());
            }
            value => drop(merged.insert(name.clone(), value.clone())),
        }
    }
    merged
}

/// Smallest merge patch (RFC 7396) from `now` to `wanted`; `exactly` removes omitted fields. A larger patch would turn
/// values of the tenant's template into values of the cluster.
pub(super) fn patch(
    now: &Map<String, Value>,
    wanted: &Map<String, Value>,
    exactly: bool,
) -> Map<String, Value> {
    let mut patch = Map::new();
    for (name, value) in wanted {
        match (now.get(name), value) {
            (None, Value::Null) => {}
            (Some(now), value) if now == value => {}
            (Some(Value::Object(now)), Value::Object(value)) => {
                let inner = self::patch(now, value, exactly);
                if !inner.is_empty() {
                    patch.insert(name.clone(), inner.into());
                }
            }
            // A missing object has no fields to remove.
            (None, Value::Object(value)) if !value.is_empty() => {
                let inner = self::patch(&Map::new(), value, exactly);
                if !inner.is_empty() {
                    patch.insert(name.clone(), inner.into());
                }
            }
            (_, value) => {
                patch.insert(name.clone(), value.clone());
            }
        }
    }
    let gone = now
        .keys()
        .filter(|name| exactly && !wanted.contains_key(*name));
    patch.extend(gone.map(|name| (name.clone(), Value::Null)));
    patch
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn patch_has_only_differences() {
        let now = object(json!({
            "displayName": "A", "facts": { "cloud": "aws", "zone": "b" }, "gitRepo": { "url": "u" },
        }));
        let wanted = object(json!({
            "displayName": "A", "facts": { "cloud": "gcp", "zone": null, "none": null }, "kubeApi": { "endpoint": "e" },
        }));
        let some =
            json!({ "facts": { "cloud": "gcp", "zone": null }, "kubeApi": { "endpoint": "e" } });
        assert_eq!(Value::Object(patch(&now, &wanted, false)), some);
        let exactly = patch(&now, &wanted, true);
        assert_eq!(exactly.get("gitRepo"), Some(&Value::Null));
        assert!(patch(&now, &now, true).is_empty());
    }

    #[test]
    fn missing_object_has_nothing_to_remove() {
        let now = object(json!({ "displayName": "A" }));
        let wanted = object(json!({ "kubeApi": { "credentials": null }, "facts": { "a": null } }));
        assert!(patch(&now, &wanted, false).is_empty());
        let wanted = object(json!({ "kubeApi": { "endpoint": "e", "credentials": null } }));
        let expected = json!({ "kubeApi": { "endpoint": "e" } });
        assert_eq!(Value::Object(patch(&now, &wanted, false)), expected);
    }

    #[test]
    fn merged_object_is_the_patched_one() {
        let now = object(json!({ "a": 1, "b": { "c": 2, "d": 3 }, "list": [1, 2] }));
        let change = object(json!({ "a": null, "b": { "d": 4 }, "list": [3], "new": { "e": 5 } }));
        let expected = json!({ "b": { "c": 2, "d": 4 }, "list": [3], "new": { "e": 5 } });
        assert_eq!(Value::Object(merged(&now, &change)), expected);
    }
}
