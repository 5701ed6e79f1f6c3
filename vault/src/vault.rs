//! A Vault behind the seam: its settings, and its HTTP API.

use std::{sync::Mutex, time::Duration};

use async_trait::async_trait;
use fairlead_api::{ClusterId, TenantId, resources::VaultNames};
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::debug;

use crate::{
    access::{DesiredAccess, RetiredAccess, SecretAccess, SecretsEnd},
    calls::{LOOKUP_PATH, VaultCalls},
    error::VaultError,
    jwk::KeysError,
    reconcile, retire,
    settings::AccessSettings,
};

/// Shortest interval between two renewals of the hub's token.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(600);

/// A Vault with its settings.
#[derive(Debug)]
pub struct Vault {
    pub(crate) calls: VaultCalls,
    pub(crate) settings: AccessSettings,
    /// True if secrets follow the deletion policy of their cluster; else they stay.
    pub(crate) deletes_secrets: bool,
    pub(crate) renewed: Mutex<Option<Instant>>,
}

impl Vault {
    /// Checks the address and the hub's token, and changes nothing. Returns what the token is allowed.
    ///
    /// # Errors
    /// [`VaultError`]
    pub async fn check(&self) -> Result<String, VaultError> {
        let token = self.calls.read(LOOKUP_PATH).await?.unwrap_or_default();
        let policies = token.get("policies").and_then(Value::as_array);
        let policies = policies.into_iter().flatten().filter_map(Value::as_str);
        let policies: Vec<&str> = policies.collect();
        Ok(format!("token with the policies {}", policies.join(", ")))
    }

    /// Address of its API, without credentials.
    #[must_use]
    pub fn address(&self) -> &str {
        self.calls.address.as_str()
    }

    /// Renews the hub's token. A token without a renewal stays as it is.
    async fn renew(&self) {
        {
            let mut renewed = self.renewed.lock().unwrap_or_else(|it| it.into_inner());
            let now = Instant::now();
            if renewed.is_some_and(|at| now < at + RENEWAL_INTERVAL) {
                return;
            }
            *renewed = Some(now);
        }
        let done = self.calls.write("auth/token/renew-self", &json!({})).await;
        if let Err(error) = done {
            debug!(%error, "token for vault not renewed");
        }
    }
}

#[async_trait]
impl SecretAccess for Vault {
    fn names(&self, tenant: &TenantId, cluster: &ClusterId) -> VaultNames {
        self.settings.names(tenant, cluster)
    }

    fn role(&self) -> &str {
        &self.settings.role
    }

    fn method(&self, tenant: &TenantId, cluster: &ClusterId) -> &'static str {
        self.settings.of(tenant, cluster).method.as_str()
    }

    fn desired(
        &self,
        tenant: &TenantId,
        cluster: &ClusterId,
        keys: &Value,
    ) -> Result<DesiredAccess, KeysError> {
        self.settings.desired(tenant, cluster, keys)
    }

    async fn ensure(&self, desired: &DesiredAccess) -> Result<Vec<String>, VaultError> {
        self.renew().await;
        reconcile::ensure(&self.calls, self.role(), desired).await
    }

    async fn retire(&self, retired: &RetiredAccess) -> Result<(), VaultError> {
        self.renew().await;
        let secrets = match self.deletes_secrets {
            true => retired.secrets,
            false => SecretsEnd::Keep,
        };
        retire::retire(&self.calls, &retired.names, secrets).await
    }
}
