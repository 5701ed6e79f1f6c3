//! A bearer token of the hub's own, without what makes it one.

use fairlead_api::{ClusterId, TenantId, resources::Role};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// The token itself is with its holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Token {
    pub id: String,
    /// SHA-256 of the token. A plain hash is enough: the token is 256 random bits, there is nothing to guess.
    #[serde(with = "super::hex")]
    pub hash: [u8; 32],
    /// Whom it stands for.
    pub name: String,
    pub role: Role,
    /// None: on all tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The one cluster that it is good for; it ends with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub expires: OffsetDateTime,
    /// Who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
}

impl Token {
    /// Name of the caller that it makes, here and as a user in clusters. It carries the tenant or the cluster that the token
    /// is for: names are free to choose there, and none may be mistaken for a name of somewhere else. Neither a name nor an
    /// id holds a colon.
    #[must_use]
    pub fn caller_name(&self) -> String {
        match (&self.cluster, &self.tenant) {
            (Some(cluster), _) => format!("{cluster}:{}", self.name),
            (None, Some(tenant)) => format!("{tenant}:{}", self.name),
            (None, None) => self.name.clone(),
        }
    }
}
