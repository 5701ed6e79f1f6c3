//! API tokens, and who one is with one.

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Role, exposed};
use crate::{ClusterId, TenantId};

/// A bearer token of the kubectl side; the token itself is shown once and not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiToken {
    pub id: String,
    /// Name of its holder. The caller and the user in clusters (`fairlead:<caller>`) have it with the tenant or the cluster of
    /// the token before it, like `t-acme:ann`.
    pub name: String,
    pub role: Role,
    /// None: on all tenants.
    pub tenant: Option<TenantId>,
    /// The one cluster that it is good for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub expires: OffsetDateTime,
    /// Who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
}

/// Body of `POST /v1/tokens`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateToken {
    pub name: String,
    pub role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// For the role `cluster`, and for no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
    /// 1 minute to 1 year; 8 hours where missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
}

/// Answer to `POST /v1/tokens`, the one time the token is seen.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CreatedToken {
    #[serde(flatten)]
    pub about: ApiToken,
    #[serde(serialize_with = "exposed")]
    pub token: SecretString,
}

/// Answer to `GET /v1/whoami`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhoAmI {
    pub name: String,
    pub role: Role,
    /// None: on all tenants.
    pub tenant: Option<TenantId>,
    /// The one cluster that the token is good for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
    /// Whom the caller is in clusters; none if it may not work in them.
    pub user: Option<String>,
    /// As which group, beside that of the cluster's tenant.
    pub group: Option<String>,
    /// Id of the API token; none where an issuer vouches for the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}
