//! Schemas of the description, made from the types of the API.

use fairlead_api::{
    Reason,
    catalog::Catalog,
    config::{AgentConfig, AgentConfigStatus},
    facts::{ClusterFact, ClusterMatch, FactHistoryEntry, ImportedFacts, Inventory},
    resources::{
        AgentSession, AgentSettings, ApiToken, BootstrapToken, Changes, Cluster,
        ClusterStatusUpdate, CompileMeta, CreateCluster, CreateToken, CreatedCluster, CreatedToken,
        HubInfo, JoinInfo, List, MoveCluster, Tenant, WhoAmI,
    },
};
use fairlead_store::Change;
use serde_json::{Map, Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use crate::{about::Metadata, compile::CompiledComponent, template::ExplainedCluster};

type Named = Vec<(String, RefOr<Schema>)>;

/// All schemas by name, with those that they refer to.
pub(super) fn schemas() -> Map<String, Value> {
    let mut all = Named::new();
    add::<Reason>(&mut all);
    add::<Metadata>(&mut all);
    add::<HubInfo>(&mut all);
    add::<WhoAmI>(&mut all);
    add::<Tenant>(&mut all);
    add::<Cluster>(&mut all);
    add::<CreateCluster>(&mut all);
    add::<CreatedCluster>(&mut all);
    add::<MoveCluster>(&mut all);
    add::<JoinInfo>(&mut all);
    add::<CompileMeta>(&mut all);
    add::<ClusterStatusUpdate>(&mut all);
    add::<ExplainedCluster>(&mut all);
    add::<Catalog>(&mut all);
    add::<AgentConfig>(&mut all);
    add::<AgentSettings>(&mut all);
    add::<ImportedFacts>(&mut all);
    add::<Inventory>(&mut all);
    add::<CreateToken>(&mut all);
    add::<CreatedToken>(&mut all);
    add::<Changes>(&mut all);
    list::<ApiToken>(&mut all, "Tokens");
    list::<BootstrapToken>(&mut all, "BootstrapTokens");
    list::<AgentSession>(&mut all, "Sessions");
    list::<AgentConfigStatus>(&mut all, "AgentConfigStatus");
    list::<CompiledComponent<'_>>(&mut all, "CompiledComponents");
    list::<ClusterFact>(&mut all, "ClusterFacts");
    list::<FactHistoryEntry>(&mut all, "FactHistory");
    list::<ClusterMatch>(&mut all, "ClusterMatches");
    list::<Change>(&mut all, "Audit");
    let values = all.into_iter().map(|(name, schema)| {
        let mut value = serde_json::to_value(schema).unwrap_or_default();
        tidy(&mut value);
        (name, value)
    });
    let free = [
        ("Any", json!({ "type": "object" })),
        ("Text", json!({ "type": "string" })),
    ];
    let free = free.map(|(name, schema)| (name.to_owned(), schema));
    values.chain(free).collect()
}

fn add<T: ToSchema>(all: &mut Named) {
    all.push((T::name().into_owned(), T::schema()));
    T::schemas(all);
}

/// Adds a list. Its name replaces the generated one of a generic type.
fn list<T: ToSchema>(all: &mut Named, name: &str) {
    all.push((name.to_owned(), List::<T>::schema()));
    T::schemas(all);
}

/// Applies two conventions of the API. An optional field is left out and never `null`. A description is plain text, without
/// links to items of the code.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let required = fields.get("required").cloned().unwrap_or_default();
            let is_required = |name: &String| {
                let names = required.as_array();
                names.is_some_and(|all| all.iter().any(|it| it == name))
            };
            if let Some(Value::Object(properties)) = fields.get_mut("properties") {
                let optional = properties.iter_mut().filter(|(name, _)| !is_required(name));
                optional.for_each(|(_, property)| without_null(property));
            }
            // utoipa has the flag of a list at its items.
            let items = fields.get_mut("items").and_then(Value::as_object_mut);
            if let Some(read_only) = items.and_then(|it| it.remove("readOnly")) {
                fields.insert("readOnly".to_owned(), read_only);
            }
            if fields.get("default").is_some_and(Value::is_null) {
                fields.remove("default");
            }
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text
                    .replace("[`", "`")
                    .replace("`]", "`")
                    .replace('\n', " ");
            }
            fields.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn without_null(property: &mut Value) {
    let Value::Object(fields) = property else {
        return;
    };
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|it| it != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            fields.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = fields.get_mut("oneOf") {
        choices.retain(|it| it.get("type").is_none_or(|it| it != "null"));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            fields.remove("oneOf");
            for (name, value) in only {
                fields.entry(name).or_insert(value);
            }
        }
    }
}
