//! The API reference: one section for each tag with its routes, then one section for each schema.

use std::fmt::Write as _;

use serde_json::{Map, Value};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The page for an OpenAPI document.
pub(crate) fn page(document: &Value) -> String {
    let mut page = "# API reference\n\nMade from the hub's `/openapi.json`. [HTTP API](../api.md) has the rules that \
                    hold for all routes.\n"
        .to_owned();
    for tag in list(document, "tags") {
        let name = text(tag, "name");
        let _ = write!(page, "\n## {name}\n\n{}\n", text(tag, "description"));
        for (path, item) in entries(document, "paths") {
            for method in METHODS {
                if let Some(route) = item.get(method).filter(|route| is_tagged(route, name)) {
                    write_route(&mut page, method, path, route);
                }
            }
        }
    }
    page.push_str("\n## Schemas\n");
    let components = document.get("components").unwrap_or(&Value::Null);
    for (name, schema) in entries(components, "schemas") {
        write_schema(&mut page, name, schema);
    }
    page
}

fn is_tagged(route: &Value, tag: &str) -> bool {
    list(route, "tags")
        .iter()
        .any(|it| it.as_str() == Some(tag))
}

fn write_route(page: &mut String, method: &str, path: &str, route: &Value) {
    let (method, summary) = (method.to_uppercase(), text(route, "summary"));
    let _ = write!(page, "\n### {method} {path}\n\n{}\n", cell(summary));
    let parameters = list(route, "parameters");
    if !parameters.is_empty() {
        page.push_str("\n| parameter | in | type | meaning |\n|---|---|---|---|\n");
    }
    for parameter in parameters {
        let kind = parameter.get("schema").map_or_else(String::new, kind);
        let (name, place) = (text(parameter, "name"), text(parameter, "in"));
        let meaning = cell(text(parameter, "description"));
        let _ = writeln!(page, "| `{name}` | {place} | {kind} | {meaning} |");
    }
    if let Some(body) = route.get("requestBody") {
        let _ = write!(page, "\nBody: {}.\n", content(body));
    }
    page.push_str("\n| status | meaning | body |\n|---|---|---|\n");
    for (status, response) in entries(route, "responses") {
        // `default` is the same for all routes; the page of rules describes it.
        if status == "default" {
            continue;
        }
        let meaning = cell(text(response, "description"));
        let _ = writeln!(page, "| {status} | {meaning} | {} |", content(response));
    }
}

/// Schema and media type of a body.
fn content(body: &Value) -> String {
    let kinds = entries(body, "content").map(|(media, it)| {
        let kind = it.get("schema").map_or_else(String::new, kind);
        if media == "application/json" {
            kind
        } else {
            format!("{kind} as `{media}`")
        }
    });
    kinds.collect::<Vec<_>>().join(" or ")
}

fn write_schema(page: &mut String, name: &str, schema: &Value) {
    let _ = write!(page, "\n### {name}\n");
    let description = text(schema, "description");
    if !description.is_empty() {
        let _ = write!(page, "\n{}\n", cell(description));
    }
    let mut fields = Vec::new();
    write_fields(&mut fields, "", schema);
    if fields.is_empty() {
        let _ = write!(page, "\nType: {}.\n", kind(schema));
        return;
    }
    page.push_str("\n| field | type | meaning |\n|---|---|---|\n");
    page.push_str(&fields.concat());
}

/// A row for each field, in depth, with its path.
fn write_fields(rows: &mut Vec<String>, prefix: &str, schema: &Value) {
    for part in list(schema, "allOf") {
        write_fields(rows, prefix, part);
    }
    let required: Vec<_> = list(schema, "required").iter().collect();
    for (name, field) in entries(schema, "properties") {
        let path = format!("{prefix}{name}");
        let is_required = required.iter().any(|it| it.as_str() == Some(name));
        let mark = if is_required { " (required)" } else { "" };
        let meaning = cell(text(field, "description"));
        rows.push(format!(
            "| `{path}`{mark} | {} | {meaning} |\n",
            kind(field)
        ));
        write_fields(rows, &format!("{path}."), field);
        if let Some(items) = field.get("items") {
            write_fields(rows, &format!("{path}[]."), items);
        }
    }
}

/// The type of a schema in one cell, with a link for a named one.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let name = name.rsplit('/').next().unwrap_or(name);
        return format!("[{name}](#{})", name.to_lowercase());
    }
    for choice in ["anyOf", "oneOf", "allOf"] {
        let parts = list(schema, choice);
        if !parts.is_empty() {
            return parts.iter().map(kind).collect::<Vec<_>>().join(" or ");
        }
    }
    let values: Vec<_> = list(schema, "enum")
        .iter()
        .map(|it| format!("`{}`", plain(it)))
        .collect();
    if !values.is_empty() {
        return values.join(", ");
    }
    let name = match schema.get("type") {
        Some(Value::Array(names)) => names.iter().map(plain).collect::<Vec<_>>().join(" or "),
        Some(name) => plain(name),
        None => "any".to_owned(),
    };
    if let Some(items) = schema.get("items") {
        return format!("{name} of {}", kind(items));
    }
    if let Some(values) = schema
        .get("additionalProperties")
        .filter(|it| it.is_object())
    {
        return format!("map of {}", kind(values));
    }
    match text(schema, "format") {
        "" => name,
        format => format!("{name} ({format})"),
    }
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Text that can stand in a table.
fn cell(text: &str) -> String {
    let text = text.replace('\n', " ").replace('|', "\\|");
    // Placeholders like <id> are no HTML.
    text.replace('<', "&lt;")
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    let list = value.get(name).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

fn entries<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let map = value.get(name).and_then(Value::as_object);
    map.into_iter()
        .flat_map(Map::iter)
        .map(|(name, it)| (name.as_str(), it))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn route_and_schema_have_their_tables() {
        let document = json!({
            "tags": [{ "name": "cluster", "description": "Clusters" }],
            "paths": { "/clusters/{id}": { "get": {
                "summary": "One cluster",
                "tags": ["cluster"],
                "parameters": [{ "in": "path", "name": "id", "schema": { "$ref": "#/components/schemas/Id" } }],
                "responses": { "200": { "description": "Done", "content": { "application/json": { "schema": { "type": "string" } } } } },
            } } },
            "components": { "schemas": { "Id": { "type": "string", "description": "a|b" } } },
        });
        let page = page(&document);
        for part in [
            "\n### GET /clusters/{id}\n\nOne cluster\n",
            "| `id` | path | [Id](#id) |  |",
            "| 200 | Done | string |",
            "### Id\n\na\\|b\n\nType: string.",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }

    #[test]
    fn fields_of_nested_objects_have_their_path() {
        let mut rows = Vec::new();
        let schema = json!({ "properties": { "a": { "type": "object", "required": ["b"],
            "properties": { "b": { "type": "array", "items": { "enum": ["x", "y"] } } } } } });
        write_fields(&mut rows, "", &schema);
        assert_eq!(
            rows,
            [
                "| `a` | object |  |\n",
                "| `a.b` (required) | array of `x`, `y` |  |\n"
            ]
        );
    }
}
