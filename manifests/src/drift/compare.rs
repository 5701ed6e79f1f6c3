//! Comparison of a live object with the answer to a forced dry run of its manifest.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    managed::{FieldOwner, entries, has_below, has_children},
    paths::{FieldPath, escape, fields_of},
};

/// Fields of `metadata` that each write changes.
const VOLATILE: [&str; 6] = [
    "managedFields",
    "resourceVersion",
    "generation",
    "uid",
    "creationTimestamp",
    "selfLink",
];

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
    let mut walk = Walk {
        own: &own,
        changes: Vec::new(),
    };
    walk.value(live, dry_run, &FieldPath::default(), "");
    let mut changes = walk.changes;
    changes.retain(|it| !is_ignored(&it.pointer, ignored));
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

fn is_ignored(pointer: &str, ignored: &[String]) -> bool {
    ignored.iter().any(|it| {
        let rest = pointer.strip_prefix(it.as_str());
        it.starts_with('/') && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
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

struct Walk<'a> {
    own: &'a BTreeSet<FieldPath>,
    changes: Vec<ChangedField>,
}

impl Walk<'_> {
    fn push(&mut self, path: &FieldPath, pointer: &str, change: FieldChange) {
        self.changes.push(ChangedField {
            path: path.clone(),
            pointer: pointer.to_owned(),
            change,
            manager: None,
            subresource: String::new(),
        });
    }

    fn value(&mut self, live: &Value, wanted: &Value, path: &FieldPath, pointer: &str) {
        if live == wanted {
            return;
        }
        // A path of ours without paths below it is atomic.
        let is_atomic = self.own.contains(path) && !has_children(self.own, path);
        match (live, wanted) {
            (Value::Object(live), Value::Object(wanted)) if !is_atomic => {
                self.map(live, wanted, path, pointer);
            }
            (Value::Array(live), Value::Array(wanted)) if !is_atomic => {
                self.list(live, wanted, path, pointer);
            }
            _ => self.push(path, pointer, FieldChange::Changed),
        }
    }

    fn map(
        &mut self,
        live: &serde_json::Map<String, Value>,
        wanted: &serde_json::Map<String, Value>,
        path: &FieldPath,
        pointer: &str,
    ) {
        let keys: BTreeSet<_> = live.keys().chain(wanted.keys()).collect();
        for key in keys {
            if (pointer.is_empty() && key == "status")
                || (pointer == "/metadata" && VOLATILE.contains(&key.as_str()))
            {
                continue;
            }
            let path = path.child(format!("f:{key}"));
            let pointer = format!("{pointer}/{}", escape(key));
            match (live.get(key), wanted.get(key)) {
                (Some(live), Some(wanted)) => self.value(live, wanted, &path, &pointer),
                (Some(_), None) => self.push(&path, &pointer, FieldChange::Added),
                (None, Some(_)) => self.push(&path, &pointer, FieldChange::Removed),
                (None, None) => {}
            }
        }
    }

    fn list(&mut self, live: &[Value], wanted: &[Value], path: &FieldPath, pointer: &str) {
        let Some(names) = self.key_names(path) else {
            return self.push(path, pointer, FieldChange::Changed);
        };
        let keyed = |items: &[Value]| -> Option<Vec<String>> {
            items.iter().map(|it| item_key(it, &names)).collect()
        };
        let (Some(live_keys), Some(wanted_keys)) = (keyed(live), keyed(wanted)) else {
            return self.push(path, pointer, FieldChange::Changed);
        };
        let before = self.changes.len();
        for (at, (key, item)) in live_keys.iter().zip(live).enumerate() {
            let path = path.child(key.clone());
            let pointer = format!("{pointer}/{at}");
            match wanted_keys
                .iter()
                .position(|it| it == key)
                .and_then(|it| wanted.get(it))
            {
                Some(wanted) => self.value(item, wanted, &path, &pointer),
                None => self.push(&path, &pointer, FieldChange::Added),
            }
        }
        for (at, key) in wanted_keys.iter().enumerate() {
            if !live_keys.contains(key) {
                let path = path.child(key.clone());
                self.push(&path, &format!("{pointer}/{at}"), FieldChange::Removed);
            }
        }
        if self.changes.len() == before && live_keys != wanted_keys {
            self.push(path, pointer, FieldChange::Changed);
        }
    }

    /// Names of the key fields of a keyed list, from our paths below it.
    fn key_names(&self, path: &FieldPath) -> Option<Vec<String>> {
        let mut below = self.own.range(path..).filter(|it| *it != path);
        let next = below.next().filter(|it| path.contains(it))?;
        let key = next.0.get(path.0.len())?.strip_prefix("k:")?;
        let key: serde_json::Map<String, Value> = serde_json::from_str(key).ok()?;
        Some(key.keys().cloned().collect())
    }
}

/// Path element of a list item, like `k:{"name":"web"}`. None if it has no key.
fn item_key(item: &Value, names: &[String]) -> Option<String> {
    let mut key = serde_json::Map::new();
    for name in names {
        key.insert(name.clone(), item.get(name)?.clone());
    }
    Some(format!("k:{}", Value::Object(key)))
}
