//! Changes, as the command line reads them.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::TenantId;

/// What became of one thing, without its values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeEntry {
    pub revision: u64,
    /// `tenant`, `cluster`, `token` or `catalog`.
    pub kind: String,
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// `created`, `updated` or `deleted`.
    pub operation: String,
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    pub actor: String,
}

/// Answer to `GET /v1/changes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// To go on from.
    pub revision: u64,
    pub items: Vec<ChangeEntry>,
}
