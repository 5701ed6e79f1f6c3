//! Access of clusters to Vault: its status, and its end.

use fairlead_api::resources::{DeletionPolicy, RepoDrift, VaultNames, VaultPhase};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// Last answer of Vault for a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VaultState {
    /// Current phase.
    pub phase: VaultPhase,
    /// Failure of the last try, with its code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Hash of the desired access at that time; the phase is void for any other.
    pub of: String,
    /// Time of the last phase change.
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
    /// Last recorded try.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub tried: Option<OffsetDateTime>,
    /// Last corrected difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<RepoDrift>,
    /// Parts that Vault may have since the first try.
    pub names: VaultNames,
}

/// Access of a deleted or moved cluster, until Vault has removed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetiredVaultAccess {
    /// Id of the cluster, and the revision of the change.
    pub id: String,
    /// Parts to remove.
    pub names: VaultNames,
    /// Handling of the secrets, if the hub's settings allow their deletion.
    pub policy: DeletionPolicy,
    /// Time of the change.
    #[serde(with = "time::serde::rfc3339")]
    pub deleted: OffsetDateTime,
    /// Reason of the last failed try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Last failed try with another reason than the one before.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub tried: Option<OffsetDateTime>,
}
