//! OpenAPI 3.1 description of the API, generated from the table of routes, and a page to browse it.
//! All assets are embedded: nothing is loaded from other origins.

mod gzip;
mod parameters;
mod schemas;

use std::sync::{Arc, LazyLock};

use axum::{
    Router,
    middleware::from_fn,
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use fairlead_api::{Code, Failure};
use http::{HeaderValue, header};
use serde_json::{Map, Value, json};
use utoipa_swagger_ui::Config;

use crate::{
    reply::{Answer, Path, Rejected},
    route_table::{ROUTES, ResponseBody, RouteSpec},
};
use parameters::{parameters, reference};
use schemas::schemas;

const TAGS: [(&str, &str); 7] = [
    ("tenant", "Management of tenants"),
    ("cluster", "Management of clusters"),
    ("bootstrapping", "Cluster bootstrapping"),
    ("inventory", "Facts and their history"),
    ("token", "API tokens"),
    ("change", "Changes and their authors"),
    ("system", "The hub itself"),
];
/// The page loads from and connects to its own origin only.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:";
const PAGE: &str = include_str!("openapi/docs.html");
const START: &str = include_str!("openapi/start.js");

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into());

pub(super) fn open<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/openapi.json", get(async || json_answer()))
        .route(
            "/docs",
            get(async || asset("text/html; charset=utf-8", PAGE)),
        )
        .route("/docs/{file}", get(file))
        .layer(from_fn(gzip::compress))
}

fn json_answer() -> Response {
    asset("application/json", DOCUMENT.clone())
}

fn asset(content_type: &str, body: impl Into<Bytes>) -> Response {
    let content_type = HeaderValue::from_str(content_type)
        .unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(POLICY),
        ),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, body.into()).into_response()
}

async fn file(Path(file): Path<String>) -> Answer<Response> {
    if file == "start.js" {
        return Ok(asset("text/javascript; charset=utf-8", START));
    }
    let config = Arc::new(Config::from("/openapi.json"));
    let found = utoipa_swagger_ui::serve(&file, config);
    let found = found.map_err(|error| Failure::because(Code::Internal, error))?;
    match found {
        Some(found) => Ok(asset(&found.content_type, found.bytes.into_owned())),
        None => Err(Rejected::from(Code::NoSuchRoute)),
    }
}

fn document() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(route.method.to_owned(), operation(route));
        }
    }
    let tags = TAGS.map(|(name, description)| json!({ "name": name, "description": description }));
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
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": { "BearerAuth": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas(),
            "responses": { "Default": failure("Error with reason, code and next step") },
        },
    })
}

fn operation(route: &RouteSpec) -> Value {
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": parameters(route),
        "responses": responses(route),
    });
    let Some(fields) = operation.as_object_mut() else {
        return operation;
    };
    if route.open {
        fields.insert("security".to_owned(), json!([]));
    }
    if let Some((content_type, schema)) = route.body {
        let body = json!({
            "required": true,
            "content": { content_type: { "schema": reference(schema) } },
        });
        fields.insert("requestBody".to_owned(), body);
    }
    operation
}

fn failure(what: &str) -> Value {
    json!({
        "description": what,
        "content": { "application/json": { "schema": reference("Reason") } },
    })
}

fn responses(route: &RouteSpec) -> Value {
    let mut responses = Map::new();
    for (status, given) in route.answers {
        let answer = match given {
            ResponseBody::Nothing => json!({ "description": "Done" }),
            ResponseBody::Json(schema) => {
                let schema = reference(schema);
                json!({ "description": "Done", "content": { "application/json": { "schema": schema } } })
            }
            ResponseBody::List(schema) => {
                let schema = json!({ "type": "array", "items": reference(schema) });
                json!({ "description": "All of them, or a page", "content": { "application/json": { "schema": schema } } })
            }
            ResponseBody::Text(kind) => {
                json!({ "description": "Done", "content": { *kind: { "schema": reference("Text") } } })
            }
        };
        responses.insert(status.to_string(), answer);
    }
    let mut refused = vec![
        (400, "It makes no sense, or no token was sent"),
        (405, "Not with this method"),
        (429, "Too many requests, or wrong tokens"),
    ];
    if !route.open || route.path.starts_with("/install/") {
        refused.push((401, "The token is wrong, or has expired"));
    }
    if !route.open {
        refused.push((403, "The role does not allow it"));
    }
    if route.path.contains('{') || route.body.is_some() || route.path.starts_with("/install/") {
        refused.push((404, "It does not exist, or the caller may not know of it"));
    }
    if !matches!(route.method, "get") {
        refused.push((409, "It exists already, is in use, or is protected"));
    }
    if route.body.is_some() {
        refused.push((415, "The body is not JSON"));
    }
    if route.honours_precondition {
        refused.push((412, "It has changed since it was read (`If-Match`)"));
    }
    if route.id == "watchChanges" {
        refused.push((410, "Changes of so long ago are no longer kept"));
    }
    for (status, what) in refused {
        responses.insert(status.to_string(), failure(what));
    }
    responses.insert(
        "default".to_owned(),
        json!({ "$ref": "#/components/responses/Default" }),
    );
    Value::Object(responses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_referenced_schema_exists() {
        let document = document();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        assert!(schemas.len() > 30);
        let text = document.to_string();
        for named in text.split("#/components/schemas/").skip(1) {
            let name = named.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
        let mut ids: Vec<_> = ROUTES.iter().map(|route| route.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), ROUTES.len());
    }
}
