//! API tokens and their holders.

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::{present::present, role::Role};
use crate::{ClusterId, Selector, TenantId, secret::exposed};

/// An API token without its secret, which the hub does not store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiToken {
    /// Id of the token.
    pub id: String,
    /// Name of the holder. Caller and user in clusters (`fairlead:<caller>`) prefix it with the tenant or cluster of the
    /// token, like `t-acme:ann`.
    pub name: String,
    /// Role of the holder.
    pub role: Role,
    /// Tenant of the token; `None` for all tenants.
    #[schema(required = true)]
    pub tenant: Option<TenantId>,
    /// Cluster of a token with the role `cluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
    /// Time of creation.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    /// Expiry.
    #[serde(with = "time::serde::rfc3339")]
    pub expires: OffsetDateTime,
    /// Caller that created the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// Owner; the token falls with it. Missing for tokens of the hub and of its operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<ApiTokenOwner>,
    /// True if the token was exchanged for one of an issuer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exchanged: bool,
    /// All roles of an exchanged token, if `role`, `tenant` and `cluster` do not tell all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<CallerGrant>,
    /// Last use; up to a minute late if the use was at another hub.
    #[serde(
        with = "time::serde::rfc3339::option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub last_used: Option<OffsetDateTime>,
    /// Reason for which the token is void ahead of its expiry, such as a deleted owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallen: Option<String>,
}

/// Owner of an API token: another token, or a person of an issuer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiTokenOwner {
    /// Name of the owner.
    pub name: String,
    /// Id of the token that is the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Issuer of the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Subject within the issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub: Option<String>,
}

/// Body of `PUT /v1/tokens/{tokenId}/owner`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HandOverToken {
    /// New owner: `me`, the id of a token, or the name of a person who owns a token.
    #[schema(min_length = 1, max_length = 256)]
    pub to: String,
}

/// Body of `POST /v1/tokens`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateToken {
    /// Name of the holder.
    #[schema(max_length = 63, pattern = "^[a-z0-9._@-]+$")]
    pub name: String,
    /// Role of the holder.
    pub role: Role,
    /// Tenant of the token; `None` for all tenants.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub tenant: Option<TenantId>,
    /// Cluster of the token; only for the role `cluster`.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub cluster: Option<ClusterId>,
    /// Lifetime, 1 minute to 1 year, and no longer than that of the owner. If missing: 8 hours, or less with its owner.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 60, maximum = 31_622_400, default = 28_800)]
    pub ttl_seconds: Option<u64>,
}

/// Response to `POST /v1/tokens`, the only one with the token's secret.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    /// Description of the token.
    #[serde(flatten)]
    pub about: ApiToken,
    /// The token itself.
    #[serde(serialize_with = "exposed")]
    #[schema(value_type = String)]
    pub token: SecretString,
}

/// Response to `GET /v1/whoami`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhoAmI {
    /// Name of the caller.
    pub name: String,
    /// Role of the caller.
    pub role: Role,
    /// Tenant of the caller; `None` for all tenants.
    #[schema(required = true)]
    pub tenant: Option<TenantId>,
    /// Cluster that the role is limited to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
    /// Label selector of the clusters that the role is limited to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub selector: Option<Selector>,
    /// Namespaces that the role is limited to in clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Further roles in parts of the hub.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<CallerGrant>,
    /// User of the caller in clusters; `None` without access to clusters.
    #[schema(required = true)]
    pub user: Option<String>,
    /// Group of the caller in clusters, in addition to that of the cluster's tenant.
    #[schema(required = true)]
    pub group: Option<String>,
    /// Id of the API token; `None` for a token of an issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// A role of the caller in a part of the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallerGrant {
    /// The role.
    pub role: Role,
    /// Source and validity.
    pub kind: CallerGrantKind,
    /// The tenant with all below it; `None`: all tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// `None`: all clusters of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
    /// Label selector of the clusters that the role is limited to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub selector: Option<Selector>,
    /// Namespaces of the role in clusters; empty: whole clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Id of the access request of a temporary role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

/// Kind of a [`CallerGrant`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CallerGrantKind {
    /// From a rule of the issuer.
    Standing,
    /// From an access request, until its end.
    Temporary,
    /// Not in effect: `fairlead access break-glass` takes it.
    BreakGlass,
}

/// Body of `POST /v1/clusters/{clusterId}/steward-token`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateStewardToken {
    /// Rotates only if the newest token is at least this old.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(minimum = 0, maximum = 316_224_000)]
    pub older_than_seconds: Option<u64>,
}

/// Response to `POST /v1/clusters/{clusterId}/steward-token`. Without a token the newest one is younger than requested.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RotatedStewardToken {
    /// The cluster.
    pub cluster: ClusterId,
    /// Id of the new token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_id: Option<String>,
    /// Expiry of the new token.
    #[serde(
        with = "time::serde::rfc3339::option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub expires: Option<OffsetDateTime>,
    /// The Secret `syn/steward` with the new token, to apply in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub secret: Option<serde_json::Value>,
}
