//! Walk over the fields in which two versions of an object differ. Drift and diffs for people use it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    managed::has_children,
    paths::{FieldPath, escape},
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

/// Rules of a walk.
#[derive(Debug, Clone, Copy)]
pub struct WalkRules<'a> {
    /// Fields of the manager of the second object. They name the keys of lists, and atomic fields.
    pub own: &'a BTreeSet<FieldPath>,
    /// True: atomic fields, and lists of equal length without keys, are compared part by part.
    pub opens_atomic: bool,
    /// JSON pointers of fields that are left out, with everything below them.
    pub ignored: &'a [String],
}

/// A field with different values.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldDifference<'a> {
    /// The field; its text is like `.spec.containers[name=web].image`.
    pub path: FieldPath,
    /// JSON pointer in the object that has the field.
    pub pointer: String,
    /// Value in the first object.
    pub from: Option<&'a Value>,
    /// Value in the second object.
    pub to: Option<&'a Value>,
}

/// Fields in which two versions of an object differ. The status, and metadata that each write changes, are left out.
#[must_use]
pub fn differences<'a>(
    from: &'a Value,
    to: &'a Value,
    rules: WalkRules<'_>,
) -> Vec<FieldDifference<'a>> {
    let mut walk = Walk {
        rules,
        found: Vec::new(),
    };
    walk.value(from, to, &FieldPath::default(), "");
    walk.found
        .retain(|it| !is_ignored(&it.pointer, rules.ignored));
    walk.found
}

fn is_ignored(pointer: &str, ignored: &[String]) -> bool {
    ignored.iter().any(|it| {
        let rest = pointer.strip_prefix(it.as_str());
        it.starts_with('/') && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

struct Walk<'a, 'r> {
    rules: WalkRules<'r>,
    found: Vec<FieldDifference<'a>>,
}

impl<'a> Walk<'a, '_> {
    fn push(
        &mut self,
        path: &FieldPath,
        pointer: &str,
        from: Option<&'a Value>,
        to: Option<&'a Value>,
    ) {
        self.found.push(FieldDifference {
            path: path.clone(),
            pointer: pointer.to_owned(),
            from,
            to,
        });
    }

    fn value(&mut self, from: &'a Value, to: &'a Value, path: &FieldPath, pointer: &str) {
        if from == to {
            return;
        }
        let own = self.rules.own;
        // A path of ours without paths below it is atomic.
        let is_atomic = !self.rules.opens_atomic && own.contains(path) && !has_children(own, path);
        match (from, to) {
            (Value::Object(from), Value::Object(to)) if !is_atomic => {
                self.map(from, to, path, pointer);
            }
            (Value::Array(old), Value::Array(new)) if !is_atomic => {
                if !self.list(old, new, path, pointer) {
                    self.push(path, pointer, Some(from), Some(to));
                }
            }
            _ => self.push(path, pointer, Some(from), Some(to)),
        }
    }

    fn map(
        &mut self,
        from: &'a Map<String, Value>,
        to: &'a Map<String, Value>,
        path: &FieldPath,
        pointer: &str,
    ) {
        let keys: BTreeSet<_> = from.keys().chain(to.keys()).collect();
        for key in keys {
            if (pointer.is_empty() && key == "status")
                || (pointer == "/metadata" && VOLATILE.contains(&key.as_str()))
            {
                continue;
            }
            let path = path.child(format!("f:{key}"));
            let pointer = format!("{pointer}/{}", escape(key));
            match (from.get(key), to.get(key)) {
                (Some(from), Some(to)) => self.value(from, to, &path, &pointer),
                (from, to) => self.push(&path, &pointer, from, to),
            }
        }
    }

    /// Compares the items of a list. False if the list is one field.
    fn list(
        &mut self,
        from: &'a [Value],
        to: &'a [Value],
        path: &FieldPath,
        pointer: &str,
    ) -> bool {
        let Some(names) = self.key_names(path) else {
            return self.open_list(from, to, path, pointer);
        };
        let keyed = |items: &[Value]| -> Option<Vec<String>> {
            items.iter().map(|it| item_key(it, &names)).collect()
        };
        let (Some(from_keys), Some(to_keys)) = (keyed(from), keyed(to)) else {
            return self.open_list(from, to, path, pointer);
        };
        let before = self.found.len();
        for (at, (key, item)) in from_keys.iter().zip(from).enumerate() {
            let path = path.child(key.clone());
            let pointer = format!("{pointer}/{at}");
            let position = to_keys.iter().position(|it| it == key);
            match position.and_then(|it| to.get(it)) {
                Some(to) => self.value(item, to, &path, &pointer),
                None => self.push(&path, &pointer, Some(item), None),
            }
        }
        for (at, (key, item)) in to_keys.iter().zip(to).enumerate() {
            if !from_keys.contains(key) {
                let path = path.child(key.clone());
                self.push(&path, &format!("{pointer}/{at}"), None, Some(item));
            }
        }
        // Another order alone is a difference of the list.
        self.found.len() > before || from_keys == to_keys
    }

    /// Compares a list without keys item by item, if the rules allow it. False if the list is one field.
    fn open_list(
        &mut self,
        from: &'a [Value],
        to: &'a [Value],
        path: &FieldPath,
        pointer: &str,
    ) -> bool {
        let is_open = self.rules.opens_atomic && from.len() == to.len();
        if is_open {
            for (at, (from, to)) in from.iter().zip(to).enumerate() {
                let path = path.child(format!("i:{at}"));
                self.value(from, to, &path, &format!("{pointer}/{at}"));
            }
        }
        is_open
    }

    /// Names of the key fields of a keyed list, from our paths below it.
    fn key_names(&self, path: &FieldPath) -> Option<Vec<String>> {
        let mut below = self.rules.own.range(path..).filter(|it| *it != path);
        let next = below.next().filter(|it| path.contains(it))?;
        let key = next.0.get(path.0.len())?.strip_prefix("k:")?;
        let key: Map<String, Value> = serde_json::from_str(key).ok()?;
        Some(key.keys().cloned().collect())
    }
}

/// Path element of a list item, like `k:{"name":"web"}`. None if it has no key.
fn item_key(item: &Value, names: &[String]) -> Option<String> {
    let mut key = Map::new();
    for name in names {
        key.insert(name.clone(), item.get(name)?.clone());
    }
    Some(format!("k:{}", Value::Object(key)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::paths::fields_of, *};

    fn found(from: &Value, to: &Value, own: &Value, opens_atomic: bool) -> Vec<String> {
        let own = fields_of(own);
        let rules = WalkRules {
            own: &own,
            opens_atomic,
            ignored: &["/spec/replicas".to_owned()],
        };
        let found = differences(from, to, rules);
        let name = |it: &FieldDifference<'_>| {
            let show = |value: Option<&Value>| value.map_or("-".to_owned(), ToString::to_string);
            format!("{} {} {}", it.path, show(it.from), show(it.to))
        };
        found.iter().map(name).collect()
    }

    #[test]
    fn items_are_found_by_their_key_and_ignored_fields_left_out() {
        let item = |name: &str, image: &str| json!({"name": name, "image": image});
        let from = json!({"spec": {"replicas": 5, "c": [item("a", "1"), item("b", "1")]}});
        let to = json!({"spec": {"replicas": 2, "c": [item("b", "2"), item("a", "1")]}});
        let own = json!({"f:spec": {"f:replicas": {}, "f:c": {
            "k:{\"name\":\"a\"}": {"f:image": {}}, "k:{\"name\":\"b\"}": {"f:image": {}},
        }}});
        for opens_atomic in [false, true] {
            let found = found(&from, &to, &own, opens_atomic);
            assert_eq!(found, [r#".spec.c[name=b].image "1" "2""#]);
        }
    }

    #[test]
    fn parts_of_atomic_fields_are_for_people_only() {
        let from = json!({"status": 1, "spec": {"args": ["a", "b"], "gone": 1}});
        let to = json!({"status": 2, "spec": {"args": ["a", "c"]}});
        let own = json!({"f:spec": {"f:args": {}}});
        let whole = [r#".spec.args ["a","b"] ["a","c"]"#, ".spec.gone 1 -"];
        assert_eq!(found(&from, &to, &own, false), whole);
        let parts = [r#".spec.args[1] "b" "c""#, ".spec.gone 1 -"];
        assert_eq!(found(&from, &to, &own, true), parts);
    }
}
