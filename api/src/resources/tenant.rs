//! Tenants, as the command line reads and writes them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::TenantId;

/// Owner of clusters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    pub id: TenantId,
    pub display_name: String,
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    /// Rises with every change; it is the start of the ETag.
    pub version: i64,
    /// Whatever else the hub says of it; see `docs/api.md`.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Body of `POST /tenants`, as far as the command line needs it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateTenant {
    /// Made up where missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    pub git_repo: NewRepo,
}

/// The repository of a new tenant. One that nobody looks after needs no URL.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewRepo {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(rename = "type")]
    pub kind: String,
}

impl Default for NewRepo {
    fn default() -> Self {
        NewRepo {
            url: None,
            kind: "unmanaged".to_owned(),
        }
    }
}
