//! Routes of the API that modules of a hub declare: each handler with its description, the OpenAPI 3.1 document of all,
//! and the parts that handlers share, such as replies, pages and rights.
//!
//! A module returns [`ApiRoutes`]: each handler with its [`RouteSpec`]. This crate refers to no module by name.

mod api_module;
mod body;
mod body_stream;
mod described;
mod document;
mod document_module;
mod form;
mod gzip;
mod invalid;
mod page;
mod parameter;
mod rejected;
pub mod reply;
mod right;
mod routes;
mod schemas;
mod spec;

pub use api_module::{ApiModule, ServedModules};
pub use invalid::{InvalidValue, invalid};
pub use page::{ListPosition, Page, Query, cursor_parameter, dry_run_parameter, next_page};
pub use parameter::QueryParameter;
pub use right::{Denied, Right};
pub use routes::ApiRoutes;
pub use spec::{RouteSpec, Tag};
// The derive macro writes paths that start with the crate's name.
pub use utoipa::{self, ToSchema};
