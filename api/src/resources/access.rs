//! Roles for a time.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::{present::present, role::Role};
use crate::{ClusterId, TenantId};

/// State of an [`AccessRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccessState {
    /// Waits for a second person, at most 24 hours.
    Pending,
    /// In effect.
    Active,
    /// Denied by a second person.
    Denied,
    /// Ended by time.
    Expired,
    /// Ended by a person.
    Revoked,
}

impl AccessState {
    /// All states.
    pub const ALL: [AccessState; 5] = [
        AccessState::Pending,
        AccessState::Active,
        AccessState::Denied,
        AccessState::Expired,
        AccessState::Revoked,
    ];

    /// Name of the state.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            AccessState::Pending => "pending",
            AccessState::Active => "active",
            AccessState::Denied => "denied",
            AccessState::Expired => "expired",
            AccessState::Revoked => "revoked",
        }
    }
}

impl fmt::Display for AccessState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for AccessState {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let state = AccessState::ALL.into_iter().find(|it| it.as_str() == text);
        state.ok_or("expected pending, active, denied, expired or revoked")
    }
}

/// A role in one cluster for a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessRequest {
    /// Id of the request.
    pub id: String,
    /// State now.
    pub state: AccessState,
    /// Name of the requester.
    pub requester: String,
    /// Id of the requester's API token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Issuer of a requester without API token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Subject of that issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The cluster.
    pub cluster: ClusterId,
    /// Tenant of the cluster.
    pub tenant: TenantId,
    /// The role.
    pub role: Role,
    /// Namespaces of the role; empty: the whole cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Time from approval to end.
    pub duration_seconds: u64,
    /// Reason, in the words of the requester.
    pub reason: String,
    /// Taken without approval (`fairlead access break-glass`).
    pub emergency: bool,
    /// Time of the request.
    #[serde(with = "time::serde::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub created: OffsetDateTime,
    /// End of the role; missing before its approval.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<OffsetDateTime>,
    /// Approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<AccessDecision>,
    /// Denial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<AccessDecision>,
    /// End ahead of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<AccessDecision>,
    /// Review of an emergency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewed: Option<AccessDecision>,
}

/// Act of a person on an [`AccessRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessDecision {
    /// Name of the person.
    pub by: String,
    /// Time of the act.
    #[serde(with = "time::serde::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub at: OffsetDateTime,
    /// Comment of the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Body of `POST /v1/access-requests` and `POST /v1/break-glass`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateAccessRequest {
    /// The cluster.
    pub cluster: ClusterId,
    /// The role; in an emergency the strongest one that the caller may take.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub role: Option<Role>,
    /// Namespaces of the role; empty: the whole cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Time from approval to end; the hub has a default and a maximum.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub duration_seconds: Option<u64>,
    /// Reason, one line.
    #[schema(min_length = 1, max_length = 256)]
    pub reason: String,
}

/// Body of a decision about an access request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessComment {
    /// Comment, one line.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(max_length = 256)]
    pub comment: Option<String>,
}
