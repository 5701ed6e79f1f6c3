//! Callers of external issuers.

use std::sync::Arc;

use fairlead_api::{TenantId, resources::Role, site::OperatorNamespace};
use fairlead_registry::NoRole;
use fairlead_seam::{AuthenticateError, Caller, ClusterScope, ScopedGrant, Subject};
use time::OffsetDateTime;

/// A caller for whom a configured issuer vouches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vouched {
    /// Name with the issuer's prefix.
    pub name: String,
    /// Role with the widest scope.
    pub role: Role,
    /// `None` grants the role on all tenants.
    pub tenant: Option<TenantId>,
    /// Clusters of the tenant in which the role counts.
    pub clusters: ClusterScope,
    /// Namespaces of the role; empty: whole clusters.
    pub namespaces: Vec<OperatorNamespace>,
    /// Roles with narrower scopes, and those for emergencies.
    pub grants: Arc<[ScopedGrant]>,
    /// The caller as its issuer names it.
    pub subject: Subject,
    /// End of the token, with the tolerance for clocks; `None` for a reviewed token, which does not tell it.
    pub expires: Option<OffsetDateTime>,
}

impl From<Vouched> for Caller {
    fn from(vouched: Vouched) -> Self {
        Caller {
            name: vouched.name,
            token: None,
            role: vouched.role,
            tenant: vouched.tenant,
            clusters: vouched.clusters,
            namespaces: vouched.namespaces,
            grants: vouched.grants,
            subject: Some(vouched.subject),
            expires: vouched.expires,
        }
    }
}

/// Terms under which an issuer's tokens are exchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeTerms {
    /// Lifetime of an exchanged token.
    pub lifetime: time::Duration,
    /// Digest of the rules that give the role.
    pub rules: String,
}

/// Reason for which nobody vouches for a token.
#[derive(Debug)]
pub(crate) enum VouchError {
    NoRole(NoRole),
    Other(AuthenticateError),
}

impl From<NoRole> for VouchError {
    fn from(person: NoRole) -> Self {
        VouchError::NoRole(person)
    }
}

impl From<AuthenticateError> for VouchError {
    fn from(error: AuthenticateError) -> Self {
        VouchError::Other(error)
    }
}

impl From<VouchError> for AuthenticateError {
    fn from(error: VouchError) -> Self {
        match error {
            VouchError::NoRole(person) => AuthenticateError::NoRole(person.cause),
            VouchError::Other(error) => error,
        }
    }
}
