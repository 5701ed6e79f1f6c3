//! Objects of a bundle made ready for server-side apply: namespace, label, annotation, and fields that must not be sent.

mod clean;
mod scope;

use std::collections::HashMap;

use fairlead_api::delivery::Patch;
use serde_json::{Map, Value, json};

pub use clean::clean;
pub use scope::Scope;

use crate::{
    object::{ObjectKey, ObjectKind},
    patch::{PatchError, apply_patches},
    yaml::{Manifest, Place},
};

/// Label of all objects of a bundle; its value is the bundle's id.
pub const BUNDLE_LABEL: &str = "fairlead/bundle";
/// Annotation with the generation of the bundle that was applied last.
pub const GENERATION_ANNOTATION: &str = "fairlead/generation";

/// Properties of the bundle that its objects get.
#[derive(Debug, Clone, Copy)]
pub struct BundleContext<'a> {
    /// Id of the bundle.
    pub bundle: &'a str,
    /// Generation of the bundle.
    pub generation: u64,
    /// Namespace of objects without one.
    pub namespace: &'a str,
    /// Changes of objects, in order, with variables replaced.
    pub patches: &'a [Patch],
}

/// An object as it is applied.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// Identity.
    pub key: ObjectKey,
    /// API group, version and kind.
    pub kind: ObjectKind,
    /// The object.
    pub object: Value,
    /// Origin in the bundle.
    pub place: Place,
}

/// A bundle that cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// Neither the cluster nor the bundle defines the kind.
    #[error("the cluster has no kind {} ({})", .kind.kind, .kind.api_version())]
    UnknownKind {
        /// The kind.
        kind: Box<ObjectKind>,
        /// Origin in the bundle.
        place: Place,
    },
    /// An object occurs twice.
    #[error("{object} occurs twice: {first}; {second}")]
    Duplicate {
        /// The object.
        object: Box<ObjectKey>,
        /// Origin of the first one.
        first: Place,
        /// Origin of the second one.
        second: Place,
    },
    /// A substituted field is no string.
    #[error("{place}: apiVersion, kind, metadata.name and metadata.namespace must be strings")]
    Identity {
        /// Origin in the bundle.
        place: Place,
    },
    /// A field has the wrong type.
    #[error("{place}: {field} must be a map of strings")]
    Field {
        /// Origin in the bundle.
        place: Place,
        /// Field, like `.metadata.labels`.
        field: &'static str,
    },
    /// A patch fails.
    #[error(transparent)]
    Patch(#[from] PatchError),
}

/// Makes the objects of a bundle ready, in their order. `scope_of` knows the kinds of the cluster; kinds that the bundle
/// defines are known, too.
///
/// # Errors
/// The first problem. [`PrepareError::UnknownKind`] may end when another bundle brings the kind.
pub fn prepare(
    manifests: Vec<Manifest>,
    context: &BundleContext<'_>,
    scope_of: &dyn Fn(&ObjectKind) -> Option<Scope>,
) -> Result<Vec<Prepared>, PrepareError> {
    let defined = scope::defined(manifests.iter().map(|it| &it.object));
    let (mut objects, places): (Vec<_>, Vec<_>) = manifests
        .into_iter()
        .map(|it| (it.object, it.place))
        .unzip();
    for (object, place) in objects.iter_mut().zip(&places) {
        let kind = ObjectKind::of(object).ok_or_else(|| identity(place))?;
        let scope = scope_of(&kind).or_else(|| {
            defined
                .get(&(kind.group.clone(), kind.kind.clone()))
                .copied()
        });
        let Some(scope) = scope else {
            return Err(PrepareError::UnknownKind {
                kind: Box::new(kind),
                place: place.clone(),
            });
        };
        scope::set_namespace(object, scope, context.namespace).ok_or_else(|| identity(place))?;
    }
    apply_patches(&mut objects, context.patches)?;
    let mut seen = HashMap::<ObjectKey, Place>::new();
    let mut prepared = Vec::with_capacity(objects.len());
    for (mut object, place) in objects.into_iter().zip(places) {
        clean(&mut object).map_err(|field| PrepareError::Field {
            place: place.clone(),
            field,
        })?;
        mark(&mut object, context).map_err(|field| PrepareError::Field {
            place: place.clone(),
            field,
        })?;
        let key = ObjectKey::of(&object).ok_or_else(|| identity(&place))?;
        let kind = ObjectKind::of(&object).ok_or_else(|| identity(&place))?;
        if let Some(first) = seen.insert(key.clone(), place.clone()) {
            return Err(PrepareError::Duplicate {
                object: Box::new(key),
                first,
                second: place,
            });
        }
        prepared.push(Prepared {
            key,
            kind,
            object,
            place,
        });
    }
    Ok(prepared)
}

fn identity(place: &Place) -> PrepareError {
    PrepareError::Identity {
        place: place.clone(),
    }
}

/// Sets label and annotation. An error names the field of the wrong type.
fn mark(object: &mut Value, context: &BundleContext<'_>) -> Result<(), &'static str> {
    let metadata = child(object, "metadata").ok_or(".metadata")?;
    let labels = child(metadata, "labels").ok_or(".metadata.labels")?;
    if let Value::Object(labels) = labels {
        labels.insert(BUNDLE_LABEL.to_owned(), json!(context.bundle));
    }
    let annotations = child(metadata, "annotations").ok_or(".metadata.annotations")?;
    if let Value::Object(annotations) = annotations {
        let generation = json!(context.generation.to_string());
        annotations.insert(GENERATION_ANNOTATION.to_owned(), generation);
    }
    Ok(())
}

/// The map at a key, made if it is missing or null. None if it is no map.
fn child<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    let child = value.as_object_mut()?.entry(key).or_insert(Value::Null);
    if child.is_null() {
        *child = Value::Object(Map::new());
    }
    child.is_object().then_some(child)
}

#[cfg(test)]
mod tests;
