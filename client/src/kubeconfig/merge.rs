//! Merge of one hub's entries into a kubeconfig. Entries of other hubs and unknown fields are kept.

use serde_json::{Map, Value};

use super::error::MergeError;

/// Fields of a cluster entry for address and trust, all of which are replaced.
const ADDRESS_FIELDS: [&str; 5] = [
    "server",
    "tls-server-name",
    "certificate-authority",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
];
/// Fields of a context that are replaced; a namespace set by the user is kept.
const CONTEXT_FIELDS: [&str; 2] = ["cluster", "user"];

/// Merges the entries of `ours` into `there`; their names end with `@hub`.
///
/// # Errors
/// [`MergeError`]
pub(super) fn merge(
    there: Value,
    ours: &Value,
    hub: &str,
    set_current: bool,
) -> Result<Value, MergeError> {
    let Value::Object(mut all) = there else {
        return Err(malformed("it is no mapping"));
    };
    if all.get("kind").is_some_and(|kind| kind != "Config") {
        return Err(malformed("its kind is not Config"));
    }
    all.entry("apiVersion").or_insert_with(|| "v1".into());
    all.entry("kind").or_insert_with(|| "Config".into());
    refuse_contexts_of_others(list(&mut all, "contexts")?, ours, hub)?;
    put(
        list(&mut all, "clusters")?,
        ours,
        "clusters",
        "cluster",
        &ADDRESS_FIELDS,
    );
    put(
        list(&mut all, "contexts")?,
        ours,
        "contexts",
        "context",
        &CONTEXT_FIELDS,
    );
    put(list(&mut all, "users")?, ours, "users", "user", &[]);
    let has_current = |all: &Map<String, Value>| {
        let current = all.get("current-context").and_then(Value::as_str);
        current.is_some_and(|name| !name.is_empty())
    };
    let current = &ours["current-context"];
    if current != "" && (set_current || !has_current(&all)) {
        all.insert("current-context".to_owned(), current.clone());
    }
    Ok(Value::Object(all))
}

/// True if all entries belong to this hub.
pub(super) fn is_only_of(there: &Value, hub: &str) -> bool {
    let of_hub = |kind: &str| match &there[kind] {
        Value::Null => true,
        Value::Array(entries) => entries.iter().all(|it| is_of(&it["name"], hub)),
        _ => false,
    };
    let is_config = there.is_null() || there.is_object();
    is_config && of_hub("clusters") && of_hub("users")
}

fn is_of(name: &Value, hub: &str) -> bool {
    let name = name.as_str().and_then(|name| name.rsplit_once('@'));
    name.is_some_and(|(_, of)| of == hub)
}

fn malformed(detail: &str) -> MergeError {
    MergeError::NoKubeconfig(detail.to_owned())
}

/// List of a kind; kubectl writes an empty list as null.
fn list<'a>(all: &'a mut Map<String, Value>, kind: &str) -> Result<&'a mut Vec<Value>, MergeError> {
    let list = all.entry(kind).or_insert(Value::Null);
    if list.is_null() {
        *list = Value::Array(Vec::new());
    }
    match list {
        Value::Array(list) => Ok(list),
        _ => Err(malformed(&format!("{kind} is no list"))),
    }
}

/// Refuses contexts of the same name that lead to another hub or cluster.
fn refuse_contexts_of_others(there: &[Value], ours: &Value, hub: &str) -> Result<(), MergeError> {
    for context in entries(ours, "contexts") {
        let same = there.iter().find(|it| it["name"] == context["name"]);
        let cluster = same.and_then(|it| it.pointer("/context/cluster"));
        if let Some(cluster) = cluster.filter(|it| !is_of(it, hub)) {
            let detail = format!(
                "the context {} is there already, for the cluster {cluster}",
                context["name"]
            );
            return Err(MergeError::ContextTaken(detail));
        }
    }
    Ok(())
}

/// Adds entries, or replaces `fields` of existing ones; an empty list of fields replaces all of them.
fn put(there: &mut Vec<Value>, ours: &Value, list: &str, of: &str, fields: &[&str]) {
    for entry in entries(ours, list) {
        let same = there.iter_mut().find(|it| it["name"] == entry["name"]);
        match same.map(|it| (it["name"].clone(), it)) {
            None => there.push(entry.clone()),
            Some((_, known)) => replace(known, &entry[of], of, fields),
        }
    }
}

fn replace(known: &mut Value, ours: &Value, of: &str, fields: &[&str]) {
    let (Some(known), Some(ours)) = (known.as_object_mut(), ours.as_object()) else {
        return;
    };
    let mut kept = match known.remove(of) {
        Some(Value::Object(before)) if !fields.is_empty() => before,
        _ => Map::new(),
    };
    kept.retain(|name, _| !fields.contains(&name.as_str()));
    kept.extend(ours.clone());
    known.insert(of.to_owned(), Value::Object(kept));
}

fn entries<'a>(config: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    config[list].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ours(context: &str, server: &str) -> Value {
        json!({
            "clusters": [{ "name": "c-1@hub", "cluster": { "server": server } }],
            "contexts": [{ "name": context, "context": { "cluster": "c-1@hub", "user": "fairlead@hub" } }],
            "users": [{ "name": "fairlead@hub", "user": { "token": "new" } }],
            "current-context": context,
        })
    }

    fn others() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "preferences": { "colors": true }, "unknown": [1],
            "clusters": [{ "name": "kind", "cluster": { "server": "https://kind" }, "more": "kept" }],
            "contexts": [{ "name": "kind", "context": { "cluster": "kind", "user": "kind" } }],
            "users": [{ "name": "kind", "user": { "exec": { "command": "x" } } }],
            "current-context": "kind",
        })
    }

    #[test]
    fn entries_of_others_and_the_current_context_stay() {
        let merged = merge(others(), &ours("demo@hub", "https://hub"), "hub", false).unwrap();
        for kind in ["clusters", "contexts", "users"] {
            assert_eq!(merged[kind][0], others()[kind][0], "{kind}");
            assert_eq!(merged[kind].as_array().unwrap().len(), 2, "{kind}");
        }
        for field in ["preferences", "unknown", "current-context"] {
            assert_eq!(merged[field], others()[field], "{field}");
        }
        let asked = merge(others(), &ours("demo@hub", "https://hub"), "hub", true).unwrap();
        assert_eq!(asked["current-context"], "demo@hub");
    }

    #[test]
    fn empty_file_gets_the_context_of_its_one_cluster() {
        for empty in [
            json!({}),
            json!({ "clusters": null, "current-context": "" }),
        ] {
            let merged = merge(empty, &ours("demo@hub", "https://hub"), "hub", false).unwrap();
            assert_eq!(merged["current-context"], "demo@hub");
            assert_eq!(merged["kind"], "Config");
        }
    }

    #[test]
    fn second_merge_keeps_fields_added_by_the_user() {
        let mut first = merge(others(), &ours("demo@hub", "https://old"), "hub", false).unwrap();
        first["contexts"][1]["context"]["namespace"] = "shop".into();
        first["clusters"][1]["cluster"]["proxy-url"] = "http://proxy".into();
        first["clusters"][1]["cluster"]["insecure-skip-tls-verify"] = true.into();
        first["users"][1]["user"] = json!({ "token": "old", "username": "x" });
        let again = merge(first, &ours("demo@hub", "https://new"), "hub", false).unwrap();
        assert_eq!(again["contexts"][1]["context"]["namespace"], "shop");
        let expected = json!({ "server": "https://new", "proxy-url": "http://proxy" });
        assert_eq!(again["clusters"][1]["cluster"], expected);
        assert_eq!(again["users"][1]["user"], json!({ "token": "new" }));
    }

    #[test]
    fn context_of_another_cluster_is_not_replaced() {
        let refused = merge(others(), &ours("kind", "https://hub"), "hub", false).unwrap_err();
        assert!(matches!(refused, MergeError::ContextTaken(_)));
        // A cluster that was created again under the same name belongs to the same hub.
        let before = merge(json!({}), &ours("demo@hub", "https://hub"), "hub", false).unwrap();
        let mut anew = ours("demo@hub", "https://hub");
        anew["contexts"][0]["context"]["cluster"] = "c-2@hub".into();
        let after = merge(before, &anew, "hub", false).unwrap();
        assert_eq!(after["contexts"][0]["context"]["cluster"], "c-2@hub");
    }

    #[test]
    fn file_that_is_not_a_kubeconfig_is_not_changed() {
        for bad in [
            json!([]),
            json!("x"),
            json!({ "kind": "Pod" }),
            json!({ "users": 1 }),
        ] {
            let refused = merge(bad, &ours("demo@hub", "https://hub"), "hub", false);
            assert!(matches!(refused, Err(MergeError::NoKubeconfig(_))));
        }
    }

    #[test]
    fn file_with_entries_of_others_is_detected() {
        assert!(is_only_of(&Value::Null, "hub"));
        assert!(is_only_of(&ours("demo", "https://hub"), "hub"));
        assert!(!is_only_of(&ours("demo", "https://hub"), "other"));
        assert!(!is_only_of(&others(), "hub"));
        assert!(!is_only_of(&json!("text"), "hub"));
    }
}
