//! Declared content of Lieutenant's repositories: template files, CI variables, compile pipelines.

use serde_json::{Map, Value, json};

use super::object::{ObjectFields, document};

/// Content with which Lieutenant marks a file that it deletes.
const DELETION_MARKER: &str = "{delete}";
/// Variables of a compile pipeline, which the hub sets itself.
const PIPELINE_VARIABLES: [&str; 3] = ["COMMODORE_API_URL", "COMMODORE_API_TOKEN", "CLUSTERS"];
/// Start of the name of a variable with the access token of a cluster.
const ACCESS_TOKEN_PREFIX: &str = "ACCESS_TOKEN_";

/// Files by path, with the marker of this API.
pub(super) fn files(files: ObjectFields) -> Value {
    let files = files.into_inner().into_iter().map(|(path, content)| {
        let is_marker = content.as_str() == Some(DELETION_MARKER);
        let file = if is_marker {
            json!({ "delete": true })
        } else {
            content
        };
        (path, file)
    });
    Value::Object(files.collect())
}

/// Variables with a reference. Values are secrets, which an import never carries.
pub(super) fn variables(list: Option<Value>, of_owner: &str, notes: &mut Vec<String>) -> Value {
    let mut variables = Map::new();
    let Some(Value::Array(list)) = list else {
        return Value::Null;
    };
    for variable in list {
        let mut fields = ObjectFields::of(Some(variable));
        let Some(name) = fields.text("name") else {
            continue;
        };
        let of_pipeline = PIPELINE_VARIABLES.contains(&name.as_str());
        if of_pipeline || name.starts_with(ACCESS_TOKEN_PREFIX) {
            continue;
        }
        let mut reference = fields.object("valueFrom").object("secretKeyRef");
        let mut options = fields.object("gitlabOptions");
        match reference.text("name") {
            Some(secret) => {
                let key = reference.text("key");
                let from = document([("name", secret.into()), ("key", json!(key))]);
                variables.insert(
                    name,
                    json!({
                        "valueFrom": from,
                        "protected": options.boolean("protected"),
                        "masked": options.boolean("masked"),
                        "raw": options.boolean("raw"),
                    }),
                );
            }
            None => notes.push(format!(
                "{of_owner}: the value of its CI variable {name} is not imported; set it again"
            )),
        }
    }
    Value::Object(variables)
}

/// Compile pipeline of a tenant.
pub(super) fn pipeline(mut spec: ObjectFields, of_owner: &str, notes: &mut Vec<String>) -> Value {
    if spec.is_empty() {
        return Value::Null;
    }
    let enabled = spec.boolean("enabled");
    if enabled {
        notes.push(format!(
            "{of_owner}: its compile pipeline needs a token of this hub; set compilePipeline.apiToken"
        ));
    }
    document([
        ("enabled", json!(enabled)),
        ("pipelineFiles", files(spec.object("pipelineFiles"))),
    ])
}
