//! Synchronisation of one hub's contexts in a kubeconfig: adds, renames and removes contexts that it made itself.
//!
//! An extension marks these contexts. Contexts of people stay, also those of the same hub.

use serde_json::{Map, Value, json};

use super::{error::MergeError, merge};

/// Name of the extension of a context.
const EXTENSION: &str = "fairlead";

/// Changes of a synchronisation, by context name.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SyncOutcome {
    /// New contexts.
    pub added: Vec<String>,
    /// Renamed contexts: former and new name.
    pub renamed: Vec<(String, String)>,
    /// Contexts of clusters that are gone.
    pub removed: Vec<String>,
}

/// Makes the marked contexts of `there` equal to those of `ours`.
///
/// # Errors
/// [`MergeError`]
pub(super) fn sync(
    there: Value,
    ours: &Value,
    hub: &str,
) -> Result<(Value, SyncOutcome), MergeError> {
    let mut ours = ours.clone();
    let mut outcome = SyncOutcome::default();
    let mut there = there;
    if let Some(all) = there.as_object_mut() {
        follow(all, &ours, hub, &mut outcome);
    }
    let is_known =
        |name: &Value| entries(&there, "contexts").any(|it| it.get("name") == Some(name));
    let new = entries(&ours, "contexts").filter_map(|it| it.get("name"));
    outcome.added = (new.filter(|name| !is_known(name)))
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    if let Some(fields) = ours.as_object_mut() {
        // The current context is the person's choice.
        fields.insert("current-context".to_owned(), "".into());
    }
    let mut merged = merge::merge(there, &ours, hub, false)?;
    for context in list_mut(&mut merged, "contexts") {
        let is_ours = entries(&ours, "contexts").any(|it| it.get("name") == context.get("name"));
        if is_ours && !is_marked(context, hub) {
            mark(context, hub);
        }
    }
    Ok((merged, outcome))
}

/// Renames and removes marked contexts.
fn follow(all: &mut Map<String, Value>, ours: &Value, hub: &str, outcome: &mut SyncOutcome) {
    let mut current = all.get("current-context").cloned();
    let Some(Value::Array(contexts)) = all.get_mut("contexts") else {
        return;
    };
    let mut names: Vec<Value> =
        (contexts.iter().filter_map(|it| it.get("name").cloned())).collect();
    let mut gone = Vec::new();
    contexts.retain_mut(|context| {
        if !is_marked(context, hub) {
            return true;
        }
        let cluster = context.pointer("/context/cluster").cloned();
        let wanted =
            entries(ours, "contexts").find(|it| it.pointer("/context/cluster") == cluster.as_ref());
        let old = text(context.get("name"));
        let Some(name) = wanted.and_then(|it| it.get("name")) else {
            outcome.removed.push(old);
            gone.extend(cluster);
            return false;
        };
        if context.get("name") != Some(name) && !names.contains(name) {
            outcome.renamed.push((old.clone(), text(Some(name))));
            if current.as_ref().and_then(Value::as_str) == Some(old.as_str()) {
                current = Some(name.clone());
            }
            names.push(name.clone());
            if let Some(fields) = context.as_object_mut() {
                fields.insert("name".to_owned(), name.clone());
            }
        }
        true
    });
    let used: Vec<Value> = contexts
        .iter()
        .filter_map(|it| it.pointer("/context/cluster").cloned())
        .collect();
    if let Some(Value::Array(clusters)) = all.get_mut("clusters") {
        let is_unused = |name: &Value| gone.contains(name) && !used.contains(name);
        clusters.retain(|it| !it.get("name").is_some_and(is_unused));
    }
    if let Some(current) = current {
        all.insert("current-context".to_owned(), current);
    }
}

fn text(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn is_marked(context: &Value, hub: &str) -> bool {
    let extensions = context.pointer("/context/extensions");
    let mut extensions = extensions.and_then(Value::as_array).into_iter().flatten();
    extensions.any(|it| {
        it.get("name").is_some_and(|name| name == EXTENSION)
            && it.pointer("/extension/hub").is_some_and(|it| it == hub)
    })
}

fn mark(context: &mut Value, hub: &str) {
    let fields = context.get_mut("context").and_then(Value::as_object_mut);
    let Some(fields) = fields else {
        return;
    };
    let extensions = fields.entry("extensions").or_insert_with(|| json!([]));
    if let Value::Array(extensions) = extensions {
        extensions.push(json!({ "name": EXTENSION, "extension": { "hub": hub } }));
    }
}

fn entries<'a>(config: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    let list = config.get(list).and_then(Value::as_array);
    list.into_iter().flatten()
}

fn list_mut<'a>(config: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> {
    let list = config.get_mut(list).and_then(Value::as_array_mut);
    list.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(contexts: &[(&str, &str)]) -> Value {
        let cluster = |(_, id): &(&str, &str)| json!({ "name": format!("{id}@hub"), "cluster": { "server": "https://hub" } });
        let context = |(name, id): &(&str, &str)| json!({ "name": name, "context": { "cluster": format!("{id}@hub"), "user": "fairlead@hub" } });
        json!({
            "clusters": contexts.iter().map(cluster).collect::<Vec<_>>(),
            "contexts": contexts.iter().map(context).collect::<Vec<_>>(),
            "users": [{ "name": "fairlead@hub", "user": { "exec": {} } }],
            "current-context": "",
        })
    }

    fn names(config: &Value, list: &str) -> Vec<String> {
        let names = entries(config, list).map(|it| text(it.get("name")));
        names.collect()
    }

    #[test]
    fn contexts_are_added_renamed_and_removed_but_only_own_ones() {
        let own = json!({
            "kind": "Config", "current-context": "demo@hub",
            "contexts": [
                { "name": "kind", "context": { "cluster": "kind", "user": "kind" } },
                { "name": "alias", "context": { "cluster": "c-2@hub", "user": "fairlead@hub" } },
            ],
        });
        let first = ours(&[("demo@hub", "c-1"), ("old@hub", "c-2"), ("gone@hub", "c-3")]);
        let (mut config, outcome) = sync(own, &first, "hub").unwrap();
        assert_eq!(outcome.added, ["demo@hub", "old@hub", "gone@hub"]);
        assert_eq!(config["current-context"], "demo@hub");
        let (again, outcome) = sync(config.clone(), &first, "hub").unwrap();
        assert_eq!((&again, outcome), (&config, SyncOutcome::default()));

        config["contexts"][2]["context"]["namespace"] = "shop".into();
        let second = ours(&[("new@hub", "c-1"), ("more@hub", "c-4")]);
        let (config, outcome) = sync(config, &second, "hub").unwrap();
        assert_eq!(outcome.added, ["more@hub"]);
        assert_eq!(
            outcome.renamed,
            [("demo@hub".to_owned(), "new@hub".to_owned())]
        );
        assert_eq!(outcome.removed, ["old@hub", "gone@hub"]);
        assert_eq!(
            names(&config, "contexts"),
            ["kind", "alias", "new@hub", "more@hub"]
        );
        // A context of a person still uses the second cluster.
        assert_eq!(
            names(&config, "clusters"),
            ["c-1@hub", "c-2@hub", "c-4@hub"]
        );
        assert_eq!(config["current-context"], "new@hub");
        assert_eq!(config["contexts"][2]["context"]["namespace"], "shop");
    }

    #[test]
    fn contexts_of_another_hub_stay() {
        let (config, _) = sync(json!({}), &ours(&[("demo@hub", "c-1")]), "hub").unwrap();
        let other = json!({ "contexts": [], "clusters": [], "users": [], "current-context": "" });
        let (config, outcome) = sync(config, &other, "other").unwrap();
        assert_eq!(outcome, SyncOutcome::default());
        assert_eq!(names(&config, "contexts"), ["demo@hub"]);
        assert!(config.get("current-context").is_none_or(|it| it == ""));
    }
}
