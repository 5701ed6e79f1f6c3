//! `/openapi.json`, and `/docs`: a page to browse it. All assets are embedded: nothing is loaded from other origins.

use std::sync::{Arc, OnceLock};

use axum::{
    Router,
    extract::State,
    middleware::from_fn,
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use fairlead_api::{Code, Failure};
use fairlead_seam::Module;
use http::{HeaderValue, header};
use utoipa_swagger_ui::Config;

use crate::reply::{Answer, Path, Rejected, finish};
use crate::{
    document::document,
    gzip,
    spec::{RouteSpec, Tag},
};

const DOCUMENT_PATH: &str = "/openapi.json";
const PAGE_PATH: &str = "/docs";
/// The page loads from and connects to its own origin only.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:";
const PAGE: &str = include_str!("docs.html");
const START: &str = include_str!("start.js");

/// Descriptions of all routes, and the document made from them on its first request.
struct Document {
    routes: Arc<[RouteSpec]>,
    bytes: OnceLock<Bytes>,
}

/// Serves the description of the API.
pub(super) struct DocumentModule(Arc<Document>);

impl DocumentModule {
    pub(super) fn new(routes: Arc<[RouteSpec]>) -> Self {
        DocumentModule(Arc::new(Document {
            routes,
            bytes: OnceLock::new(),
        }))
    }

    /// Descriptions of the module's own routes. The assets of the page have none.
    pub(super) fn specs() -> Vec<RouteSpec> {
        vec![
            RouteSpec::get(Tag::SYSTEM, DOCUMENT_PATH, "openapi", "This document")
                .open()
                .gives_object(200),
            RouteSpec::get(
                Tag::SYSTEM,
                PAGE_PATH,
                "docs",
                "Page to browse this document and to send requests",
            )
            .open()
            .gives_text(200, "text/html"),
        ]
    }
}

impl Module for DocumentModule {
    fn name(&self) -> &'static str {
        "openapi"
    }

    fn open_routes(&self) -> Router {
        let page = async || asset("text/html; charset=utf-8", PAGE);
        let router = Router::new()
            .route(DOCUMENT_PATH, get(json))
            .route(PAGE_PATH, get(page))
            .route("/docs/{file}", get(file))
            .layer(from_fn(gzip::compress));
        finish(router.with_state(Arc::clone(&self.0)))
    }
}

async fn json(State(document_of): State<Arc<Document>>) -> Response {
    let made = || document(&document_of.routes).to_string().into();
    asset(
        "application/json",
        document_of.bytes.get_or_init(made).clone(),
    )
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
    let config = Arc::new(Config::from(DOCUMENT_PATH));
    let found = utoipa_swagger_ui::serve(&file, config);
    let found = found.map_err(|error| Failure::because(Code::Internal, error))?;
    match found {
        Some(found) => Ok(asset(&found.content_type, found.bytes.into_owned())),
        None => Err(Rejected::from(Code::NoSuchRoute)),
    }
}
