//! The catalog: Kubernetes objects desired in one cluster. With `deliverCatalog` it is a deployment of the cluster.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
