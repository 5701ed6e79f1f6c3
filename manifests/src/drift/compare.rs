//! Comparison of a live object with the answer to a forced dry run of its manifest.

use serde_json::Value;

use super::{
    managed::{FieldOwner, entries, has_below},
    paths::{FieldPath, fields_of},
    walk::{FieldDifference, WalkRules, differences},
};

/// Kind of a change by others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldChange {
    /// The field has another value.
    Changed,
    /// The field is gone.
    Removed,
    /// An atomic list or map, or an item, has more than the manifest.
    Added,
}

/// A field that a forced apply would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedField {
    /// The field; its text is like `.spec.replicas`.
    pub path: FieldPath,
    /// JSON pointer in the object that has the field.
    pub pointer: String,
    /// Kind of the change.
    pub change: FieldChange,
    /// Manager of the change. Nobody owns a removed field.
    pub manager: Option<String>,
    /// Subresource of the change, like `scale`; `""` for the object itself.
    pub subresource: String,
}

impl From<FieldDifference<'_>> for ChangedField {
    fn from(found: FieldDifference<'_>) -> Self {
        let change = match (found.from, found.to) {
            (Some(_), None) => FieldChange::Added,
            (None, _) => FieldChange::Removed,
            (Some(_), Some(_)) => FieldChange::Changed,
        };
        Self {
            path: found.path,
            pointer: found.pointer,
            change,
            manager: None,
            subresource: String::new(),
        }
    }
}

/// Result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Comparison {
    /// A forced apply would change nothing. Take a new baseline from the answer to the dry run: an edit beside our fields
    /// can move the generation, and each later event would be compared again.
    Same,
    /// All values are ours, and we own less: apply again, otherwise the next change stays unseen.
    OwnershipLost,
    /// Others changed these fields.
    Drift(Vec<ChangedField>),
}

/// Compares a live object with the answer to a forced dry run. Fields at or below `ignored` JSON pointers are left out.
#[must_use]
pub fn compare(
    live: &Value,
    dry_run: &Value,
    owner: &FieldOwner,
    ignored: &[String],
) -> Comparison {
    let own = owner
        .entry(dry_run)
        .map(|it| fields_of(it.fields))
        .unwrap_or_default();
    let rules = WalkRules {
        own: &own,
        opens_atomic: false,
        ignored,
    };
    let found = differences(live, dry_run, rules).into_iter();
    let mut changes: Vec<_> = found.map(ChangedField::from).collect();
    for change in &mut changes {
        attribute(change, live, owner);
    }
    if !changes.is_empty() {
        return Comparison::Drift(changes);
    }
    let live_own = owner
        .entry(live)
        .map(|it| fields_of(it.fields))
        .unwrap_or_default();
    // Others may own the fields that they may change.
    let ignored: Vec<_> = ignored
        .iter()
        .filter_map(|it| FieldPath::of_pointer(it))
        .collect();
    let is_kept = |path: &&FieldPath| !ignored.iter().any(|it| it.contains(path));
    if live_own
        .iter()
        .filter(is_kept)
        .eq(own.iter().filter(is_kept))
    {
        return Comparison::Same;
    }
    Comparison::OwnershipLost
}

/// Names the manager: the latest entry of others with the path, or with a path below it.
fn attribute(change: &mut ChangedField, live: &Value, owner: &FieldOwner) {
    if change.change == FieldChange::Removed {
        return;
    }
    let latest = entries(live)
        .filter(|it| !owner.has(it) && it.subresource != "status")
        .filter(|it| has_below(&fields_of(it.fields), &change.path))
        .max_by_key(|it| it.time);
    // Our own entry can hold a foreign value: somebody used our name.
    let latest = latest.or_else(|| {
        owner
            .entry(live)
            .filter(|it| has_below(&fields_of(it.fields), &change.path))
    });
    if let Some(entry) = latest {
        change.manager = Some(entry.manager.to_owned());
        entry.subresource.clone_into(&mut change.subresource);
    }
}
