//! Scope of kinds: namespaced, or of the whole cluster.

use std::collections::HashMap;

use serde_json::Value;

use crate::object::{ObjectKey, text};

/// Scope of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Objects lie in namespaces.
    Namespaced,
    /// Objects belong to the cluster.
    Cluster,
}

/// Scopes of the kinds that custom resource definitions among the objects define, by group and kind.
pub(super) fn defined<'a>(
    objects: impl Iterator<Item = &'a Value>,
) -> HashMap<(String, String), Scope> {
    objects
        .filter(|object| {
            ObjectKey::of(object)
                .is_some_and(|key| key.is("apiextensions.k8s.io", "CustomResourceDefinition"))
        })
        .filter_map(|object| {
            let group = text(object, "/spec/group")?.to_owned();
            let kind = text(object, "/spec/names/kind")?.to_owned();
            let scope = match text(object, "/spec/scope")? {
                "Namespaced" => Scope::Namespaced,
                _ => Scope::Cluster,
            };
            Some(((group, kind), scope))
        })
        .collect()
}

/// Sets the namespace of a namespaced object without one, and removes that of others, as the API server does. None if
/// the object has no metadata, or the namespace is no string.
pub(super) fn set_namespace(object: &mut Value, scope: Scope, default: &str) -> Option<()> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    match scope {
        Scope::Cluster => {
            metadata.remove("namespace");
        }
        Scope::Namespaced => {
            let namespace = metadata.entry("namespace").or_insert(Value::Null);
            if namespace.is_null() || namespace.as_str() == Some("") {
                *namespace = Value::from(default);
            }
            namespace.as_str()?;
        }
    }
    Some(())
}
