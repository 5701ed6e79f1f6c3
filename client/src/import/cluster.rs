//! Clusters of Lieutenant, with their facts, compile metadata and the state of their bootstrap
//! token.

use fairlead_api::ClusterId;
use serde_json::{Map, Value, json};

use super::{
    PlannedCluster,
    object::{LieutenantObject, ObjectFields, document},
    repo,
};

pub(super) fn planned(
    cluster: &mut LieutenantObject,
    made: Option<LieutenantObject>,
    notes: &mut Vec<String>,
) -> Option<PlannedCluster> {
    let id: ClusterId = match cluster.name.parse() {
        Ok(id) => id,
        Err(error) => {
            notes.push(format!("{cluster}: {error}"));
            return None;
        }
    };
    let owner = cluster.to_string();
    let (spec, status) = (&mut cluster.spec, &mut cluster.status);
    let Some(tenant) = spec.object("tenantRef").text("name") else {
        notes.push(format!("{owner}: no tenant"));
        return None;
    };
    let mut template = spec.object("gitRepoTemplate");
    let policy = |own: Option<String>, name: &str, template: &mut ObjectFields| {
        let of_repo = template.text(name);
        json!(own.or(of_repo))
    };
    let creation = policy(spec.text("creationPolicy"), "creationPolicy", &mut template);
    let deletion = policy(spec.text("deletionPolicy"), "deletionPolicy", &mut template);
    let git_repo = repo::planned(
        spec.text("gitRepoURL"),
        spec.text("gitHostKeys"),
        template,
        made,
        &owner,
        notes,
    );
    let planned = document([
        ("tenant", tenant.into()),
        ("displayName", json!(spec.text("displayName"))),
        ("annotations", json!(cluster.annotations)),
        ("facts", json!(spec.object("facts").into_texts())),
        ("gitRepo", git_repo),
        (
            "tenantGitRepoRevision",
            json!(spec.text("tenantGitRepoRevision")),
        ),
        (
            "globalGitRepoRevision",
            json!(spec.text("globalGitRepoRevision")),
        ),
        ("creationPolicy", creation),
        ("deletionPolicy", deletion),
        ("enableCompilation", switch(spec.take("enableCompilation"))),
    ]);
    let mut token = status.object("bootstrapToken");
    let awaits_agent = token.boolean("tokenValid");
    if awaits_agent {
        // The token's text is useless: this hub derives its tokens from its own key.
        notes.push(format!(
            "{owner}: its bootstrap token was open; a new token replaces it here"
        ));
    }
    let facts = dynamic_facts(status.object("facts").into_inner());
    let compiled = compile_meta(status.object("compileMeta").into_inner());
    cluster.report_rest(notes);
    Some(PlannedCluster {
        id,
        document: planned,
        dynamic_facts: (!facts.is_empty()).then_some(Value::Object(facts)),
        compile_meta: (!compiled.is_empty()).then_some(Value::Object(compiled)),
        awaits_agent,
    })
}

/// A switch that is on; Go omits the others.
pub(super) fn switch(value: Option<Value>) -> Value {
    match value {
        Some(Value::Bool(true)) => Value::Bool(true),
        _ => Value::Null,
    }
}

/// Lieutenant stores each fact as a string. Strings that parse as JSON become JSON again.
fn dynamic_facts(texts: Map<String, Value>) -> Map<String, Value> {
    let value = |text: Value| match &text {
        Value::String(inner) => serde_json::from_str(inner).unwrap_or(text),
        _ => text,
    };
    texts
        .into_iter()
        .map(|(name, text)| (name, value(text)))
        .collect()
}

/// Drops the zero values that Go writes for missing fields.
fn compile_meta(fields: Map<String, Value>) -> Map<String, Value> {
    let clean = fields.into_iter().filter(|(_, value)| match value {
        Value::Null => false,
        Value::Object(inner) => !inner.is_empty(),
        _ => true,
    });
    clean.collect()
}
