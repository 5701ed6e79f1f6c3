//! OpenAPI 3.1 document, made from the descriptions of all routes.

use serde_json::{Map, Value, json};

use crate::{
    schemas::{self, schemas},
    spec::{ResponseBody, RouteSpec, Tag},
};

/// The document of these routes.
pub(super) fn document(routes: &[RouteSpec]) -> Value {
    let mut paths = Map::new();
    for route in routes {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(route.method.to_owned(), operation(route));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Fairlead",
            "description": "The hub's API: that of Project Syn's Lieutenant, with additions under /v1.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "BearerAuth": [] }],
        "tags": tags(routes),
        "paths": paths,
        "components": {
            "securitySchemes": { "BearerAuth": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas(routes.iter().flat_map(RouteSpec::schemas)),
            "responses": { "Default": failure("Error with reason, code and next step") },
        },
    })
}

/// The shared tags, then those of single modules.
fn tags(routes: &[RouteSpec]) -> Vec<Value> {
    let mut tags = Tag::SHARED.to_vec();
    for route in routes {
        if !tags.contains(&route.tag) {
            tags.push(route.tag);
        }
    }
    let shown = tags
        .iter()
        .map(|tag| json!({ "name": tag.name, "description": tag.description }));
    shown.collect()
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn operation(route: &RouteSpec) -> Value {
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "tags": [route.tag.name],
        "parameters": parameters(route),
        "responses": responses(route),
    });
    let Some(fields) = operation.as_object_mut() else {
        return operation;
    };
    if route.is_open {
        fields.insert("security".to_owned(), json!([]));
    }
    if let Some((content_type, schema)) = &route.body {
        let mut content = json!({ "schema": reference(&schema.name) });
        if let (Some(content), Some(example)) = (content.as_object_mut(), &route.example) {
            content.insert("example".to_owned(), example.clone());
        }
        let body = json!({ "required": true, "content": { *content_type: content } });
        fields.insert("requestBody".to_owned(), body);
    }
    if !route.bytes.is_empty() {
        // OpenAPI 3.1: a media type without schema is binary.
        let types = route.bytes.iter().map(|it| ((*it).to_owned(), json!({})));
        let content: Map<String, Value> = types.collect();
        let body = json!({ "required": true, "content": content });
        fields.insert("requestBody".to_owned(), body);
    }
    operation
}

fn parameters(route: &RouteSpec) -> Vec<Value> {
    let in_path = route.path.split('/').filter_map(|segment| {
        let name = segment.strip_prefix('{')?.strip_suffix('}')?;
        let own = route.path_schemas.iter().find(|(known, _)| *known == name);
        let schema = own.map_or_else(|| reference("Id"), |(_, schema)| schema.clone());
        Some(json!({ "in": "path", "name": name, "required": true, "schema": schema }))
    });
    let in_query = route.query.iter().map(|it| {
        json!({ "in": "query", "name": it.name, "description": it.description, "schema": it.schema })
    });
    in_path.chain(in_query).collect()
}

fn failure(description: &str) -> Value {
    json!({
        "description": description,
        "content": { "application/json": { "schema": reference(schemas::FAILURE) } },
    })
}

fn responses(route: &RouteSpec) -> Value {
    let mut responses = Map::new();
    for (status, body) in &route.responses {
        let (description, content) = match body {
            ResponseBody::Nothing => ("Done", None),
            ResponseBody::Json(schema) => {
                ("Done", Some(("application/json", reference(&schema.name))))
            }
            ResponseBody::Object => ("Done", Some(("application/json", reference(schemas::ANY)))),
            ResponseBody::Array(schema) => {
                let array = json!({ "type": "array", "items": reference(&schema.name) });
                ("All of them, or a page", Some(("application/json", array)))
            }
            ResponseBody::Text(content_type) => {
                ("Done", Some((*content_type, reference(schemas::TEXT))))
            }
        };
        let response = match content {
            None => json!({ "description": description }),
            Some((content_type, schema)) => {
                json!({ "description": description, "content": { content_type: { "schema": schema } } })
            }
        };
        responses.insert(status.to_string(), response);
    }
    for (status, description) in failures(route) {
        responses.insert(status.to_string(), failure(description));
    }
    responses.insert(
        "default".to_owned(),
        json!({ "$ref": "#/components/responses/Default" }),
    );
    Value::Object(responses)
}

/// Failures that follow from the route's properties, and its own ones.
fn failures(route: &RouteSpec) -> Vec<(u16, &'static str)> {
    let mut failures = vec![
        (400, "It makes no sense, or no token was sent"),
        (405, "Not with this method"),
        (429, "Too many requests, or wrong tokens"),
    ];
    if !route.is_open {
        failures.push((401, "The token is wrong, or has expired"));
        failures.push((403, "The role does not allow it"));
    }
    if route.path.contains('{') || route.body.is_some() {
        failures.push((404, "It does not exist, or the caller may not know of it"));
    }
    if route.method != "get" {
        failures.push((409, "It exists already, is in use, or is protected"));
    }
    if route.body.is_some() {
        failures.push((415, "The body is not JSON"));
    }
    if !route.bytes.is_empty() {
        failures.push((415, "The body has another content type"));
    }
    if route.honours_if_match {
        failures.push((412, "It has changed since it was read (`If-Match`)"));
    }
    failures.extend(&route.failures);
    failures
}
