//! The catalog: Kubernetes objects desired in one cluster. The agent fetches the catalog of its own cluster over its session,
//! `GET /agent/v1/catalog` with `If-None-Match`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Path from which an agent fetches its catalog.
pub const CATALOG_PATH: &str = "/agent/v1/catalog";
/// Limit of a catalog, in bytes of JSON.
pub const MAX_CATALOG_BYTES: usize = 4 * 1024 * 1024;

/// Catalog of one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Catalog {
    /// Version, incremented by every change; also the ETag.
    #[serde(default)]
    #[schema(minimum = 0)]
    pub version: i64,
    /// Kubernetes objects, in the order in which they are applied.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    pub objects: Vec<serde_json::Value>,
}
