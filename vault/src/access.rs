//! Desired access of one cluster, and the seam of the server that provides it.

use std::fmt;

use async_trait::async_trait;
use fairlead_api::{ClusterId, TenantId, resources::VaultNames};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{error::VaultError, jwk::KeysError};

/// Auth method that checks tokens of service accounts offline.
pub const JWT: &str = "jwt";

/// Access of a cluster as Vault is to have it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DesiredAccess {
    /// Names of its parts.
    pub names: VaultNames,
    /// Type of the auth method.
    pub method: &'static str,
    /// Text of the policy.
    pub policy: String,
    /// Fields of the auth method's configuration; none for AppRole.
    pub config: Map<String, Value>,
    /// Fields of the role.
    pub role: Map<String, Value>,
}

/// Access of a cluster that was deleted or moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetiredAccess {
    /// Names of its parts.
    pub names: VaultNames,
    /// Handling of the secrets, if the settings allow their deletion.
    pub secrets: SecretsEnd,
}

/// End of the secrets of a deleted cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretsEnd {
    /// All secrets stay.
    Keep,
    /// The latest version of each secret is deleted, and can be restored.
    Delete,
    /// All versions of each secret are destroyed.
    Destroy,
}

/// A server with secrets. Its errors are shown to everyone with access to the cluster: they contain
/// no secrets.
#[async_trait]
pub trait SecretAccess: fmt::Debug + Send + Sync {
    /// Names of the parts of a cluster's access.
    fn names(&self, tenant: &TenantId, cluster: &ClusterId) -> VaultNames;

    /// Role with which workloads log in.
    fn role(&self) -> &str;

    /// Type of the auth method of a cluster.
    fn method(&self, _tenant: &TenantId, _cluster: &ClusterId) -> &'static str {
        JWT
    }

    /// Desired access of a cluster whose API server signs tokens with these keys: an object with
    /// `issuer`, and `keys` as in RFC 7517. Only the method `jwt` reads the keys.
    ///
    /// # Errors
    /// [`KeysError`]
    fn desired(
        &self,
        tenant: &TenantId,
        cluster: &ClusterId,
        keys: &Value,
    ) -> Result<DesiredAccess, KeysError>;

    /// Creates missing parts and corrects changed ones; returns the corrected ones. It is called
    /// again for the same access: periodically, after a restart, and possibly twice at once when
    /// another hub takes over.
    ///
    /// # Errors
    /// [`VaultError`]
    async fn ensure(&self, desired: &DesiredAccess) -> Result<Vec<String>, VaultError>;

    /// Removes all parts. Missing parts, and those of somebody else, are a success.
    ///
    /// # Errors
    /// [`VaultError`]
    async fn retire(&self, retired: &RetiredAccess) -> Result<(), VaultError>;
}
