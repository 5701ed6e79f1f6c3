//! A bearer token of the hub, without its secret.

use fairlead_api::{ClusterId, TenantId, resources::Role};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::person::PersonRole;

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
    /// Owner; the token falls with its right to have such a token. `None`: the hub itself and its operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<TokenOwner>,
    /// True if the token was exchanged for one of an issuer; its owner is then the subject of that token.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exchanged: bool,
    /// Digest of the issuer's rules at the exchange: with other rules the token is void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange_rules: Option<String>,
    /// Roles of an exchanged token if role, tenant and cluster do not tell all: its own first, then the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<PersonRole>,
    /// True until the first use, which ends the earlier tokens of the same holder shortly afterwards.
    #[serde(default, skip_serializing_if = "is_false")]
    pub replaces: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "signature of serde")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Owner of an API token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", untagged)]
pub enum TokenOwner {
    /// Another API token.
    Token {
        /// Id of that token.
        token: String,
    },
    /// A person or program of an issuer.
    Person(PersonOwner),
}

/// A person or program of an issuer, with its rights at its last sign-in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PersonOwner {
    /// URL of the issuer.
    pub issuer: String,
    /// Subject within the issuer; with the issuer it never changes hands.
    pub sub: String,
    /// Name of the caller.
    pub name: String,
    /// Role at the last sign-in; `None` if no rule matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Tenant of that role; `None` for all tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Cluster of the role `cluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
    /// End of the credential with these rights: an older one does not change them.
    #[serde(
        with = "time::serde::rfc3339::option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub credential_ends: Option<OffsetDateTime>,
}

impl PersonOwner {
    /// True if both have the same name and rights.
    #[must_use]
    pub fn has_rights_of(&self, other: &PersonOwner) -> bool {
        (&self.name, self.role, &self.tenant, &self.cluster)
            == (&other.name, other.role, &other.tenant, &other.cluster)
    }

    /// True if the credential of `self` is older than that of `other`.
    #[must_use]
    pub fn is_older_than(&self, other: &PersonOwner) -> bool {
        matches!((self.credential_ends, other.credential_ends), (Some(own), Some(other)) if own < other)
    }
}

impl Token {
    /// Name of the token's caller, here and as a user in clusters. It contains the tenant or
    /// cluster: tenants choose names freely, and none may equal a name from elsewhere. Neither
    /// names nor ids contain a colon. An exchanged token keeps the name of its subject, which the
    /// issuer's prefix makes unique.
    #[must_use]
    pub fn caller_name(&self) -> String {
        if self.exchanged {
            return self.name.clone();
        }
        match (&self.cluster, &self.tenant) {
            (Some(cluster), _) => format!("{cluster}:{}", self.name),
            (None, Some(tenant)) => format!("{tenant}:{}", self.name),
            (None, None) => self.name.clone(),
        }
    }

    /// The person who owns the token, if it is one.
    #[must_use]
    pub fn person(&self) -> Option<&PersonOwner> {
        match &self.owner {
            Some(TokenOwner::Person(person)) => Some(person),
            Some(TokenOwner::Token { .. }) | None => None,
        }
    }
}
