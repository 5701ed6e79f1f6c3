//! Tenants.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::TenantId;

/// Owner of clusters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    /// Id of the tenant.
    pub id: TenantId,
    /// Display name.
    pub display_name: String,
    /// Time of creation.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    /// Version, incremented by every change; the first part of the ETag.
    pub version: i64,
    /// All other fields of the API.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Body of `POST /tenants`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateTenant {
    /// Id of the tenant; generated if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Display name; the id if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Configuration repository.
    pub git_repo: NewRepo,
}

/// Repository of a new tenant. The default is unmanaged and has no URL.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewRepo {
    /// URL of the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `auto` or `unmanaged`.
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
