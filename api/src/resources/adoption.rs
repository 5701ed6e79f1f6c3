//! Adoptions: agents without a join string that wait for a person.

use std::fmt;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::ClusterId;

/// State of an [`Adoption`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AdoptionState {
    /// Waits for a person.
    Pending,
    /// A person has approved it.
    Approved,
    /// A person has refused it.
    Refused,
    /// Nobody has decided in time.
    Expired,
}

impl fmt::Display for AdoptionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AdoptionState::Pending => "pending",
            AdoptionState::Approved => "approved",
            AdoptionState::Refused => "refused",
            AdoptionState::Expired => "expired",
        })
    }
}

/// An agent that announced itself without a join string. Its code is never part of it: only the agent shows the code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Adoption {
    /// Id of the adoption.
    pub id: String,
    /// State now.
    pub state: AdoptionState,
    /// SHA-256 of the agent's public key in hexadecimal; the agent's log shows the same.
    pub key_fingerprint: String,
    /// Address of the connection.
    pub address: String,
    /// Reported UID of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_uid: Option<String>,
    /// Reported version of Kubernetes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// Reported version of the agent.
    pub agent_version: String,
    /// Time of the announcement.
    #[serde(with = "time::serde::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub created: OffsetDateTime,
    /// End of the code.
    #[serde(with = "time::serde::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub expires: OffsetDateTime,
    /// Cluster of an approved adoption.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
    /// Person who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
}

/// A code, to find or to refuse an adoption.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdoptionByCode {
    /// Code in the agent's log, like `7KQX-M2VP`.
    pub code: String,
}

/// Approval of an adoption.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApproveAdoption {
    /// Code in the agent's log, like `7KQX-M2VP`.
    pub code: String,
    /// Cluster without an agent.
    pub cluster: ClusterId,
    /// Fingerprint in the agent's log; the approval of another key is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_fingerprint: Option<String>,
}
