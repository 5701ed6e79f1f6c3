//! JSON merge patch (RFC 7396), restricted like in Lieutenant: facts, dynamic facts and annotations
//! merge at the first level, compile metadata is replaced, the type of a repository is not changed.

use serde_json::{Map, Value};

/// RFC 7396, section 2.
pub(crate) fn rfc7396(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else {
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(&name);
        } else {
            rfc7396(target.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// Patches a cluster's document.
pub(crate) fn cluster(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, mut value) in patch {
        match name.as_str() {
            "facts" | "annotations" | "dynamicFacts" => key_by_key(target, name, value),
            "compileMeta" => put(target, name, value),
            "gitRepo" => {
                without_type(&mut value);
                whole(target, name, value);
            }
            _ => whole(target, name, value),
        }
    }
}

/// Patches a tenant's document.
pub(crate) fn tenant(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, mut value) in patch {
        match name.as_str() {
            "annotations" => key_by_key(target, name, value),
            "gitRepo" => {
                without_type(&mut value);
                whole(target, name, value);
            }
            _ => whole(target, name, value),
        }
    }
}

fn without_type(repo: &mut Value) {
    if let Value::Object(repo) = repo {
        repo.remove("type");
    }
}

fn put(target: &mut Map<String, Value>, name: String, value: Value) {
    if value.is_null() {
        target.remove(&name);
    } else {
        target.insert(name, value);
    }
}

fn whole(target: &mut Map<String, Value>, name: String, value: Value) {
    if value.is_null() {
        target.remove(&name);
    } else {
        rfc7396(target.entry(name).or_insert(Value::Null), value);
    }
}

fn key_by_key(target: &mut Map<String, Value>, name: String, value: Value) {
    let Value::Object(patch) = value else {
        // Not a map: rejected later when the document is parsed.
        return put(target, name, value);
    };
    let Value::Object(map) = (target.entry(name)).or_insert_with(|| Value::Object(Map::new()))
    else {
        return;
    };
    for (key, value) in patch {
        put(map, key, value);
    }
}
