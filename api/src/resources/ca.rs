//! The hub's certificate authorities and their rotation.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::status::ClusterState;
use crate::{CaPin, ClusterId, TenantId};

/// Response to `GET /v1/ca`, and to a step of a rotation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaStatus {
    /// Phase of the rotation.
    pub phase: CaPhase,
    /// Authorities that the hub trusts, oldest first.
    pub authorities: Vec<CaInfo>,
    /// Time of the last restore, while no admin has confirmed the identities and tokens from before.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub unconfirmed_restore: Option<OffsetDateTime>,
    /// Authorities that are no longer trusted, oldest first.
    pub retired: Vec<RetiredCaInfo>,
    /// Clusters with an enrolled agent.
    pub enrolled: usize,
    /// Enrolled clusters with an agent that trusts the newest authority.
    pub trusting: usize,
    /// Enrolled clusters with an agent that has an identity of the newest authority.
    pub identified: usize,
    /// Enrolled clusters without one of both, in the order of their ids.
    pub behind: Vec<CaBehind>,
}

/// Phase of a rotation of the CA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CaPhase {
    /// One authority.
    Stable,
    /// A new authority is announced, and the old one is still trusted.
    Rotating,
}

impl CaPhase {
    /// The name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            CaPhase::Stable => "stable",
            CaPhase::Rotating => "rotating",
        }
    }
}

/// One authority of the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaInfo {
    /// SHA-256 of its public key.
    #[schema(value_type = String)]
    pub pin: CaPin,
    /// True for the authority that signs identities of agents.
    pub signs_identities: bool,
    /// True for the authority that signs the hub's own certificates.
    pub signs_hub: bool,
    /// Start of its validity.
    #[serde(with = "time::serde::rfc3339")]
    pub not_before: OffsetDateTime,
    /// End of its validity.
    #[serde(with = "time::serde::rfc3339")]
    pub not_after: OffsetDateTime,
    /// Certificate in PEM.
    pub certificate: String,
}

/// An authority that was retired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetiredCaInfo {
    /// SHA-256 of its public key.
    #[schema(value_type = String)]
    pub pin: CaPin,
    /// Time of its retirement.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Clusters that had to enrol again, because the retirement was forced.
    pub left_behind: usize,
}

/// A cluster that a retirement of the old authority would cut off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaBehind {
    /// Id of the cluster.
    pub cluster: ClusterId,
    /// Its tenant.
    pub tenant: TenantId,
    /// State of its agent.
    pub state: ClusterState,
    /// True if its agent trusts the newest authority, and lacks only an identity of it.
    pub trusting: bool,
    /// Time of the last answer of its agent.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_seen: Option<OffsetDateTime>,
}

/// Body of `POST /v1/ca/retirement`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RetireCa {
    /// Cut off the clusters that are behind: they have to enrol again.
    pub force: bool,
}
