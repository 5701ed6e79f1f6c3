//! Callers, and their permissions in clusters.

use std::sync::Arc;

use fairlead_api::{ClusterId, TenantId, resources::Role};
use time::OffsetDateTime;

/// An authenticated user or program on the kubectl side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Name of the caller; in clusters the user `fairlead:<name>`.
    pub name: String,
    /// Id of the API token; `None` for a caller that an issuer vouches for.
    pub token: Option<String>,
    /// Role of the caller.
    pub role: Role,
    /// Tenant that the caller is limited to, with all tenants below it; `None`: all tenants.
    pub tenant: Option<TenantId>,
    /// Cluster that the caller is limited to; `None`: all clusters of the tenant.
    pub cluster: Option<ClusterId>,
    /// Subject of a caller that an issuer vouches for; `None` for API tokens.
    pub subject: Option<Subject>,
    /// End of the credential; `None` if the hub does not know one.
    pub expires: Option<OffsetDateTime>,
}

impl Caller {
    /// True if both have the same name, credential and rights. A renewed credential may end at another time.
    #[must_use]
    pub fn is_same_as(&self, other: &Caller) -> bool {
        let Caller {
            name,
            token,
            role,
            tenant,
            cluster,
            subject,
            expires: _,
        } = self;
        (name, token, role, tenant, cluster, subject)
            == (
                &other.name,
                &other.token,
                &other.role,
                &other.tenant,
                &other.cluster,
                &other.subject,
            )
    }
}

/// A person or program as its issuer names it. The pair is unique, and never changes hands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject {
    /// URL of the issuer, as in the claim `iss`; for a reviewing cluster its API server.
    pub issuer: Arc<str>,
    /// Claim `sub`; for a reviewing cluster the user name.
    pub sub: String,
}

/// Permission of a caller in a cluster. The gateway makes the permit from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Role of the caller in the cluster.
    pub role: Role,
    /// The tenant of the cluster.
    pub tenant: TenantId,
}

#[cfg(test)]
mod tests;
