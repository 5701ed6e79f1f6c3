//! Rights of people who sign in through an issuer.

use fairlead_api::{ClusterId, Selector, TenantId, resources::Role};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// Rights of a person by the newest token that any hub of the store has seen with other rights than before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Person {
    /// Hash of issuer and subject.
    pub id: String,
    /// URL of the issuer.
    pub issuer: String,
    /// Claim `sub`.
    pub subject: String,
    /// Time of issue of the token with these rights.
    #[serde(with = "time::serde::rfc3339")]
    pub issued: OffsetDateTime,
    /// `None`: no rule of the hub matches, or the person has signed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rights: Option<PersonRights>,
}

/// Rights of a caller by the claims of its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PersonRights {
    /// Name of the caller.
    pub name: String,
    /// Roles of the caller; the first one is its own.
    pub roles: Vec<PersonRole>,
}

/// A role in a part of the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PersonRole {
    /// The role.
    pub role: Role,
    /// `None` grants the role on all tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// `None` grants the role in all clusters of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterId>,
    /// Selector of the clusters; `None` for all, or for the one in `cluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    /// Namespaces of the role in clusters; empty: whole clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// The role is not in effect: the person may take it in an emergency.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub break_glass: bool,
}

impl PersonRights {
    /// True if these rights include `other`.
    #[must_use]
    pub fn cover(&self, other: &PersonRights) -> bool {
        let covers = |role: &PersonRole| self.roles.iter().any(|own| own.covers(role));
        self.name == other.name && other.roles.iter().all(covers)
    }
}

impl PersonRole {
    fn covers(&self, other: &PersonRole) -> bool {
        let has_role = self.role == other.role || self.role.includes(other.role);
        let has_namespaces = self.namespaces.is_empty()
            || !other.namespaces.is_empty()
                && other
                    .namespaces
                    .iter()
                    .all(|it| self.namespaces.contains(it));
        let own = (&self.cluster, &self.selector);
        let has_clusters = own == (&None, &None) || own == (&other.cluster, &other.selector);
        has_role
            && has_namespaces
            && self.break_glass == other.break_glass
            && (self.tenant.is_none() || self.tenant == other.tenant)
            && has_clusters
    }
}
