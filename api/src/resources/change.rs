//! Entries of the change log.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::TenantId;

/// One entry of the change log, without values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeEntry {
    /// Revision of the registry after the change.
    pub revision: u64,
    /// `tenant`, `cluster`, `token` or `catalog`.
    pub kind: String,
    /// Id of the changed resource.
    pub id: String,
    /// Tenant of the changed resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// `created`, `updated` or `deleted`.
    pub operation: String,
    /// Time of the change.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Author: the name of a caller, `agent:<cluster>` or `system:hub`.
    pub actor: String,
}

/// Response to `GET /v1/changes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Revision to continue from.
    pub revision: u64,
    /// Changes in the order of their revisions.
    pub items: Vec<ChangeEntry>,
}
