//! Tokens for the APIs of Git servers, which the hub stores encrypted. No answer contains one.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::TenantId;

/// A stored credential, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GitCredential)]
pub struct GitCredentialDocument {
    /// Name, as in `gitRepo.apiSecretRef`.
    pub name: String,
    /// Tenant that may use it; all tenants if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Time of the last change.
    #[serde(with = "time::serde::rfc3339")]
    pub changed: OffsetDateTime,
    /// Name of the caller who changed it.
    pub by: String,
}

/// Response to a list of credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GitCredentials {
    /// In the order of their names.
    pub items: Vec<GitCredentialDocument>,
}

/// Body that sets a credential.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetGitCredential {
    /// Token of the API of a Git server, in visible ASCII characters.
    #[schema(write_only, min_length = 1, max_length = 4096)]
    pub token: String,
}
