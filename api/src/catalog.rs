//! The desired configuration of one cluster. The agent pulls it over its own session, `GET /agent/v1/catalog` with
//! `If-None-Match`; a cluster is given its own and no other's.

use serde::{Deserialize, Serialize};

/// Where an agent asks for its catalog.
pub const CATALOG_PATH: &str = "/agent/v1/catalog";
/// The largest catalog that is taken, in bytes of JSON.
pub const MAX_CATALOG_BYTES: usize = 4 * 1024 * 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Catalog {
    /// Rises with every change; it is the ETag too.
    #[serde(default)]
    pub version: i64,
    /// Kubernetes objects that should be there, in the order in which to apply them.
    #[serde(default)]
    pub objects: Vec<serde_json::Value>,
}
