//! Entries of `managedFields`, and fields of others beside ours.

use std::collections::BTreeSet;

use serde_json::Value;

use super::paths::{FieldPath, fields_of};
use crate::object::text;

/// Manager and operation of an entry without subresource: the identity of an owner of fields.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldOwner {
    /// Name of the manager, like `fairlead/b-shop`.
    pub manager: String,
    /// `Apply`, or `Update` for objects made by POST or PUT.
    pub operation: String,
}

impl FieldOwner {
    /// Owner of fields by server-side apply.
    #[must_use]
    pub fn apply(manager: &str) -> Self {
        Self {
            manager: manager.to_owned(),
            operation: "Apply".to_owned(),
        }
    }

    /// Owner of the fields that a bundle applies: manager `fairlead/BUNDLE`.
    #[must_use]
    pub fn of_bundle(bundle: &str) -> Self {
        Self::apply(&format!("fairlead/{bundle}"))
    }

    /// True for an entry of this owner.
    #[must_use]
    pub fn has(&self, entry: &ManagedEntry<'_>) -> bool {
        entry.manager == self.manager
            && entry.operation == self.operation
            && entry.subresource.is_empty()
    }

    /// The entry of this owner.
    #[must_use]
    pub fn entry<'a>(&self, object: &'a Value) -> Option<ManagedEntry<'a>> {
        entries(object).find(|it| self.has(it))
    }
}

/// One entry of `managedFields`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ManagedEntry<'a> {
    /// Name of the manager.
    pub manager: &'a str,
    /// `Apply` or `Update`.
    pub operation: &'a str,
    /// Subresource, like `status` or `scale`; `""` for the object itself.
    pub subresource: &'a str,
    /// Version of the paths.
    pub api_version: &'a str,
    /// Time of the last change, in RFC 3339 with whole seconds.
    pub time: &'a str,
    /// Paths.
    pub fields: &'a Value,
}

/// Entries of an object. Invalid ones are left out.
pub fn entries(object: &Value) -> impl Iterator<Item = ManagedEntry<'_>> {
    let entries = object.pointer("/metadata/managedFields");
    let entries = entries.and_then(Value::as_array).into_iter().flatten();
    entries.filter_map(entry)
}

/// Reads one element of `managedFields`.
pub(super) fn entry(raw: &Value) -> Option<ManagedEntry<'_>> {
    let field = |pointer| text(raw, pointer).unwrap_or_default();
    Some(ManagedEntry {
        manager: text(raw, "/manager")?,
        operation: field("/operation"),
        subresource: field("/subresource"),
        api_version: field("/apiVersion"),
        time: field("/time"),
        fields: raw.get("fieldsV1")?,
    })
}

/// A field that only others set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BesideField {
    /// The field.
    pub path: FieldPath,
    /// Its manager.
    pub manager: String,
}

/// Fields that others set beside those of `owner`: no part of the status, and no parent of its fields.
#[must_use]
pub fn beside(object: &Value, owner: &FieldOwner) -> Vec<BesideField> {
    let own = owner
        .entry(object)
        .map(|it| fields_of(it.fields))
        .unwrap_or_default();
    let mut beside = Vec::new();
    for entry in entries(object) {
        if owner.has(&entry) || entry.subresource == "status" {
            continue;
        }
        let paths = fields_of(entry.fields);
        for path in &paths {
            // An atomic field of ours contains all paths below it.
            let is_shared = has_below(&own, path)
                || own
                    .iter()
                    .any(|it| it.contains(path) && !has_children(&own, it));
            if !is_shared && !has_children(&paths, path) {
                beside.push(BesideField {
                    path: path.clone(),
                    manager: entry.manager.to_owned(),
                });
            }
        }
    }
    beside
}

/// True if the set has a path below the path.
pub(super) fn has_children(paths: &BTreeSet<FieldPath>, path: &FieldPath) -> bool {
    let mut below = paths.range(path..).filter(|it| *it != path);
    below.next().is_some_and(|next| path.contains(next))
}

/// True if the set has the path, or a path below it.
pub(super) fn has_below(paths: &BTreeSet<FieldPath>, path: &FieldPath) -> bool {
    paths
        .range(path..)
        .next()
        .is_some_and(|next| path.contains(next))
}
