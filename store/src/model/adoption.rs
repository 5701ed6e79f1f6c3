//! Agents without a join string that wait for a person.

use std::net::IpAddr;

use fairlead_api::{ClusterId, ClusterUid, resources::AdoptionState};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// An announced key, and the decision about it. The code is not part of it: it is derived from a key of the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingAdoption {
    /// Random id.
    pub id: String,
    /// SHA-256 of the public key, in hexadecimal.
    pub key: String,
    /// Address of the announcement.
    pub address: IpAddr,
    /// Reported UID of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_uid: Option<ClusterUid>,
    /// Reported version of Kubernetes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// Reported version of the agent.
    pub agent_version: String,
    /// Time of the announcement.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    /// End of the code, and of the row.
    #[serde(with = "time::serde::rfc3339")]
    pub expires: OffsetDateTime,
    /// Cluster that the approval bound to the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
    /// Person who approved or refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
}

impl PendingAdoption {
    /// State at this time.
    #[must_use]
    pub fn state(&self, now: OffsetDateTime) -> AdoptionState {
        if now >= self.expires {
            return AdoptionState::Expired;
        }
        match (&self.decided_by, &self.cluster) {
            (None, _) => AdoptionState::Pending,
            (Some(_), Some(_)) => AdoptionState::Approved,
            (Some(_), None) => AdoptionState::Refused,
        }
    }
}
