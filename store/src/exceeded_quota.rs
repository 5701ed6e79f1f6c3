//! Quotas that a change exceeds.

use std::fmt;

use fairlead_api::TenantId;

/// A change exceeds a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExceededQuota {
    /// Tenant with the quota.
    pub tenant: TenantId,
    /// Limited kind.
    pub kind: QuotaKind,
    /// Its limit.
    pub limit: u32,
}

/// Kind of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaKind {
    /// Clusters.
    Clusters,
    /// API tokens.
    Tokens,
    /// Clusters with a catalog.
    Catalogs,
    /// Bytes of one catalog.
    CatalogBytes,
    /// Changes in one minute.
    Changes,
}

impl fmt::Display for ExceededQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (limit, tenant) = (self.limit, &self.tenant);
        match self.kind {
            QuotaKind::Clusters => write!(f, "{tenant} may have {limit} clusters"),
            QuotaKind::Tokens => write!(f, "{tenant} may have {limit} tokens"),
            QuotaKind::Catalogs => write!(f, "{tenant} may have {limit} catalogs"),
            QuotaKind::CatalogBytes => {
                write!(f, "a catalog of {tenant} may have {limit} bytes")
            }
            QuotaKind::Changes => write!(f, "{tenant} may make {limit} changes in a minute"),
        }
    }
}
