//! Paths of fields as `fieldsV1` writes them.

use std::{collections::BTreeSet, fmt};

use serde_json::{Map, Value, json};

use crate::fields::segment;

/// Path of a field: elements like `f:spec`, `k:{"name":"web"}`, `v:"a"` and `i:0`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(pub(super) Vec<String>);

impl FieldPath {
    /// True for this path and for all paths below it.
    #[must_use]
    pub fn contains(&self, other: &FieldPath) -> bool {
        other.0.starts_with(&self.0)
    }

    /// Path of a field of maps only. None if the JSON pointer is empty or has no leading `/`.
    pub(super) fn of_pointer(pointer: &str) -> Option<Self> {
        let elements = pointer.strip_prefix('/')?.split('/');
        Some(Self(
            elements.map(|it| format!("f:{}", unescape(it))).collect(),
        ))
    }

    pub(super) fn child(&self, element: String) -> Self {
        let mut elements = self.0.clone();
        elements.push(element);
        Self(elements)
    }
}

/// Reads `~1` and `~0` of a JSON pointer.
pub(super) fn unescape(element: &str) -> String {
    element.replace("~1", "/").replace("~0", "~")
}

/// Writes an element of a JSON pointer.
pub(super) fn escape(element: &str) -> String {
    element.replace('~', "~0").replace('/', "~1")
}

/// The path for people, like `.spec.containers[name=web].image`.
impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for element in &self.0 {
            match element.split_at_checked(2) {
                Some(("f:", name)) => f.write_str(&segment(name))?,
                Some(("k:", key)) => f.write_str(&item_name(key))?,
                Some((_, rest)) => write!(f, "[{rest}]")?,
                None => write!(f, "[{element}]")?,
            }
        }
        Ok(())
    }
}

/// Name of a list item by its key, like `[name=web]`.
pub(super) fn item_name(key: &str) -> String {
    let Ok(Value::Object(key)) = serde_json::from_str(key) else {
        return format!("[{key}]");
    };
    let fields: Vec<_> = key
        .iter()
        .map(|(name, value)| match value {
            Value::String(text) => format!("{name}={text}"),
            other => format!("{name}={other}"),
        })
        .collect();
    format!("[{}]", fields.join(","))
}

/// Reads the paths of a `fieldsV1`.
#[must_use]
pub fn fields_of(fields: &Value) -> BTreeSet<FieldPath> {
    let mut paths = BTreeSet::new();
    collect(fields, &FieldPath::default(), &mut paths);
    paths
}

fn collect(node: &Value, path: &FieldPath, paths: &mut BTreeSet<FieldPath>) {
    let Value::Object(children) = node else {
        return;
    };
    for (element, child) in children {
        if element == "." {
            paths.insert(path.clone());
            continue;
        }
        let path = path.child(element.clone());
        if child.as_object().is_none_or(Map::is_empty) {
            paths.insert(path);
        } else {
            collect(child, &path, paths);
        }
    }
}

/// Writes paths as `fieldsV1`.
#[must_use]
pub fn fields_to_json<'a>(paths: impl IntoIterator<Item = &'a FieldPath>) -> Value {
    let mut paths: Vec<_> = paths.into_iter().collect();
    paths.sort_unstable();
    let mut root = Map::new();
    for (at, path) in paths.iter().enumerate() {
        // A path with children is written as `.` below it. Children follow it in this order.
        let has_children = paths
            .get(at + 1)
            .is_some_and(|next| next.0.len() > path.0.len() && path.contains(next));
        insert(&mut root, &path.0, has_children);
    }
    Value::Object(root)
}

fn insert(node: &mut Map<String, Value>, elements: &[String], has_children: bool) {
    let Some((element, rest)) = elements.split_first() else {
        if has_children {
            node.insert(".".to_owned(), json!({}));
        }
        return;
    };
    let child = node.entry(element.clone()).or_insert_with(|| json!({}));
    if let Value::Object(child) = child {
        insert(child, rest, has_children);
    }
}
