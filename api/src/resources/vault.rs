//! Access of clusters to Vault.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::repo::{DeletionPolicy, RepoDrift};

/// Access of a cluster to its secrets in Vault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VaultAccess {
    /// Path of the auth method, for `vault write auth/MOUNT/login`.
    pub mount: String,
    /// Type of the auth method: `jwt`, `kubernetes` or `approle`.
    pub method: String,
    /// Role of that auth method.
    pub role: String,
    /// Path of the secrets: the engine, a slash, and the path in it.
    pub path: String,
    /// Last answer of Vault.
    pub state: VaultAccessState,
}

/// Status of the access to Vault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VaultAccessState {
    /// Phase of the access.
    pub phase: VaultPhase,
    /// Failure of the last try, with its code and the next step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Start of the phase.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub since: Option<OffsetDateTime>,
    /// Last recorded try of the hub. Repeated results are not recorded.
    #[serde(
        default,
        with = "time::serde::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_try: Option<OffsetDateTime>,
    /// Last difference in Vault that the hub corrected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<RepoDrift>,
}

/// Phase of the access to Vault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum VaultPhase {
    /// Vault has not got it yet: keys are missing, or Vault does not answer.
    Waiting,
    /// Vault has it as desired.
    Ready,
    /// Vault refuses it.
    Failed,
}

/// Names of the parts of one cluster's access in Vault.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VaultNames {
    /// Owner as the parts name it: cluster and tenant.
    pub owner: String,
    /// Path of the auth method, without `auth/`.
    pub mount: String,
    /// Name of the policy.
    pub policy: String,
    /// Path of the secrets engine, of the kind KV version 2.
    pub kv: String,
    /// Path of the cluster's secrets in that engine.
    pub path: String,
}

/// Access of a deleted or moved cluster, until Vault has removed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RetiredVaultAccess)]
pub struct RetiredVaultDocument {
    /// Id of the entry.
    pub id: String,
    /// Parts to remove.
    pub names: VaultNames,
    /// Handling of the secrets, if the hub's settings allow their deletion.
    pub deletion_policy: DeletionPolicy,
    /// Time of the deletion or move.
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
    pub last_try: Option<OffsetDateTime>,
}

/// Response to `GET /v1/retired-vault-access`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetiredVaultAccesses {
    /// In the order of their ids.
    pub items: Vec<RetiredVaultDocument>,
}
