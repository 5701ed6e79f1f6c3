//! Routes of the API with their descriptions, and the OpenAPI 3.1 document made from them.
//!
//! A module returns [`ApiRoutes`]: each handler with its [`RouteSpec`]. The document refers to no module by name.

mod api_module;
pub(crate) mod described;
mod document;
mod document_module;
mod gzip;
mod parameter;
mod routes;
mod schemas;
mod spec;

pub use api_module::{ApiModule, ServedModules};
pub use parameter::QueryParameter;
pub use routes::ApiRoutes;
pub use spec::{RouteSpec, Tag};
// The derive macro writes paths that start with the crate's name.
pub use utoipa::{self, ToSchema};
