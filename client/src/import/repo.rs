//! Git repositories: fields of the owning object, and the operator's GitRepo object of the same
//! name.

use fairlead_api::resources::without_secret;
use serde_json::{Map, Value, json};

use super::{
    contents,
    object::{LieutenantObject, ObjectFields, document},
};

/// Name of the deploy key of the cluster's agent.
const STEWARD_KEY: &str = "steward";

/// The repository's document, or null. `url` and `host_keys` come from the owner; `of_owner` names
/// it in notes.
pub(super) fn planned(
    url: Option<String>,
    host_keys: Option<String>,
    mut template: ObjectFields,
    made: Option<LieutenantObject>,
    of_owner: &str,
    notes: &mut Vec<String>,
) -> Value {
    let mut made = made
        .map(|made| (made.spec, made.status))
        .unwrap_or_default();
    template.fill(&std::mem::take(&mut made.0).into_inner());
    let (spec, status) = (&mut template, &mut made.1);
    let mut kind = spec.text("repoType");
    let url = url.or_else(|| status.text("url"));
    let url = url.map(|url| without_credentials(url, of_owner, notes));
    let host_keys = host_keys.or_else(|| status.text("hostKeys"));
    let mut keys = deploy_keys(spec.object("deployKeys"), of_owner, notes);
    let steward = keys
        .remove(STEWARD_KEY)
        .and_then(|key| key.get("key").cloned());
    let (path, name) = (spec.text("path"), spec.text("repoName"));
    let mut secret = spec.object("apiSecretRef");
    let secret = secret.text("name").map(|name| {
        let namespace = secret.text("namespace");
        document([("name", name.into()), ("namespace", json!(namespace))])
    });
    let files = contents::files(spec.object("templateFiles"));
    let variables = contents::variables(spec.take("ciVariables"), of_owner, notes);
    // The tenant and both policies are known from the owner.
    for name in ["tenantRef", "creationPolicy", "deletionPolicy"] {
        spec.object(name);
        spec.text(name);
    }
    for name in spec.clone().into_inner().keys() {
        notes.push(format!(
            "{of_owner}: {name} of its repository is not supported"
        ));
    }
    let is_given = |it: &Value| it.as_object().is_some_and(|it| !it.is_empty());
    let is_placed = path.is_some() || name.is_some() || secret.is_some();
    let is_placed = is_placed || is_given(&files) || is_given(&variables);
    if url.is_none() && kind.is_none() && keys.is_empty() && steward.is_none() && !is_placed {
        return Value::Null;
    }
    if kind.is_none() && !url.as_deref().is_some_and(is_managed) {
        // Lieutenant omits the type of a repository that it does not manage.
        kind = Some("unmanaged".to_owned());
    }
    document([
        ("url", json!(url)),
        ("type", json!(kind)),
        ("hostKeys", json!(host_keys)),
        ("deployKey", steward.unwrap_or_default()),
        ("deployKeys", Value::Object(keys)),
        ("path", json!(path)),
        ("repoName", json!(name)),
        ("apiSecretRef", secret.unwrap_or_default()),
        ("templateFiles", files),
        ("ciVariables", variables),
    ])
}

/// Removes user and password from a repository URL.
pub(super) fn without_credentials(url: String, of_owner: &str, notes: &mut Vec<String>) -> String {
    let Some(plain) = without_secret(&url) else {
        return url;
    };
    notes.push(format!(
        "{of_owner}: user or password in its repository URL; {plain} is imported"
    ));
    plain
}

/// True if the path of the URL has a group and a name.
fn is_managed(url: &str) -> bool {
    let path = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = path.split_once(['/', ':']).map_or("", |(_, path)| path);
    path.split('/').filter(|part| !part.is_empty()).count() >= 2
}

fn deploy_keys(keys: ObjectFields, of_owner: &str, notes: &mut Vec<String>) -> Map<String, Value> {
    let mut taken = Map::new();
    for (name, key) in keys.into_inner() {
        let mut key = ObjectFields::of(Some(key));
        match (key.text("type"), key.text("key")) {
            (Some(kind), Some(data)) => {
                let write_access = key.boolean("writeAccess");
                let key = json!({ "key": format!("{kind} {data}"), "writeAccess": write_access });
                taken.insert(name, key);
            }
            _ => notes.push(format!(
                "{of_owner}: its deploy key {name} has no type or no key"
            )),
        }
    }
    taken
}
