//! Layers: options of a bundle, with those of a target over them.

use std::collections::BTreeMap;

use fairlead_api::{
    BundleId,
    delivery::{BundleFields, Patch, Target},
};
use serde_json::{Map, Value};

/// Namespace of a bundle that names none.
const DEFAULT_NAMESPACE: &str = "default";

/// Options that a target can change, merged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layer {
    /// Namespace of objects without one.
    pub(crate) namespace: String,
    /// Variables `${vars.X}`.
    pub(crate) vars: BTreeMap<String, Value>,
    /// Values of a release.
    pub(crate) values: Map<String, Value>,
    /// Changes of objects.
    pub(crate) patches: Vec<Patch>,
}

impl Layer {
    /// Merges the options of a target over those of its bundle.
    pub(crate) fn of(fields: &BundleFields, target: &Target) -> Self {
        let namespace = target.namespace.as_ref().or(fields.namespace.as_ref());
        let namespace = namespace.map_or_else(|| DEFAULT_NAMESPACE.to_owned(), Clone::clone);
        let mut vars = fields.vars.clone();
        vars.extend(target.vars.clone());
        // As in values, `null` removes.
        vars.retain(|_, value| !value.is_null());
        let mut values = Map::new();
        merge_values(
            &mut values,
            fields.helm.iter().flat_map(|helm| &helm.values),
        );
        merge_values(&mut values, &target.values);
        let mut patches = fields.patches.clone();
        patches.extend(target.patches.iter().cloned());
        Layer {
            namespace,
            vars,
            values,
            patches,
        }
    }
}

/// Name of the release of a bundle that names none: the id without its prefix.
pub(crate) fn default_release(bundle: &BundleId) -> &str {
    let id = bundle.as_str();
    id.strip_prefix(BundleId::PREFIX).unwrap_or(id)
}

/// Merges values over others: maps deeply, lists replaced, `null` removes.
///
/// A `null` without a value to remove stays: Helm removes the chart's default then.
pub fn merge_values<'a>(
    base: &mut Map<String, Value>,
    over: impl IntoIterator<Item = (&'a String, &'a Value)>,
) {
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (Some(Value::Object(base)), Value::Object(over)) => merge_values(base, over),
            (Some(_), Value::Null) => drop(base.remove(key)),
            (Some(known), value) => *known = value.clone(),
            (None, value) => drop(base.insert(key.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(base: Value, over: Value) -> Value {
        let (Value::Object(mut base), Value::Object(over)) = (base, over) else {
            panic!("values are maps");
        };
        merge_values(&mut base, &over);
        Value::Object(base)
    }

    #[test]
    fn maps_merge_deeply_lists_are_replaced_and_null_removes() {
        for (base, over, result) in [
            (json!({}), json!({"a": 1}), json!({"a": 1})),
            (
                json!({"a": {"b": 1, "c": 2}}),
                json!({"a": {"b": 3}}),
                json!({"a": {"b": 3, "c": 2}}),
            ),
            (json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]})),
            (json!({"a": {"b": 1}}), json!({"a": 2}), json!({"a": 2})),
            (
                json!({"a": 2}),
                json!({"a": {"b": 1}}),
                json!({"a": {"b": 1}}),
            ),
            (
                json!({"a": {"b": 1, "c": 2}}),
                json!({"a": {"b": null}}),
                json!({"a": {"c": 2}}),
            ),
            (json!({"a": 1}), json!({"a": null}), json!({})),
            // The chart's default is Helm's to remove.
            (json!({}), json!({"a": null}), json!({"a": null})),
        ] {
            assert_eq!(
                merged(base.clone(), over.clone()),
                result,
                "{base} and {over}"
            );
        }
    }

    #[test]
    fn a_target_is_merged_over_its_bundle() {
        let fields: BundleFields = serde_json::from_value(json!({
            "namespace": "shop",
            "vars": {"a": 1, "b": 2},
            "patches": [{"target": {"kind": "A"}, "merge": {}}],
        }))
        .unwrap();
        let target: Target = serde_json::from_value(json!({
            "namespace": "edge",
            "vars": {"b": 3, "a": null, "c": 4},
            "patches": [{"target": {"kind": "B"}, "merge": {}}],
        }))
        .unwrap();
        let layer = Layer::of(&fields, &target);
        assert_eq!(layer.namespace, "edge");
        assert_eq!(json!(layer.vars), json!({"b": 3, "c": 4}));
        let kinds = layer.patches.iter().map(|it| it.target.kind.as_deref());
        assert_eq!(kinds.collect::<Vec<_>>(), [Some("A"), Some("B")]);
        let plain = Layer::of(&BundleFields::default(), &Target::default());
        assert_eq!(plain.namespace, "default");
    }
}
