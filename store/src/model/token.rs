//! A bearer token of the hub, without its secret.

use fairlead_api::{ClusterId, TenantId, resources::Role};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// An API token; its holder has the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// Id of the token.
    pub id: String,
    /// SHA-256 of the secret. A plain hash suffices: 256 random bits cannot be guessed.
    #[serde(with = "super::hex")]
    pub hash: [u8; 32],
    /// Name chosen for the caller.
    pub name: String,
    /// Role of the caller.
    pub role: Role,
    /// `None` grants the role on all tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The one cluster it is valid for; deleted with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
    /// Time of creation.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    /// Expiry.
    #[serde(with = "time::serde::rfc3339")]
    pub expires: OffsetDateTime,
    /// Name of the creator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
}

impl Token {
    /// Name of the token's caller, here and as a user in clusters. It contains the tenant or
    /// cluster: tenants choose names freely, and none may equal a name from elsewhere. Neither
    /// names nor ids contain a colon.
    #[must_use]
    pub fn caller_name(&self) -> String {
        match (&self.cluster, &self.tenant) {
            (Some(cluster), _) => format!("{cluster}:{}", self.name),
            (None, Some(tenant)) => format!("{tenant}:{}", self.name),
            (None, None) => self.name.clone(),
        }
    }
}
