//! Quotas of tenants.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Upper limits of a tenant's own resources. A missing limit is the hub's default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantQuotas {
    /// Number of clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<u32>,
    /// Number of API tokens of the tenant and of its clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u32>,
    /// Number of clusters with a catalog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalogs: Option<u32>,
    /// Size of one catalog as JSON, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_bytes: Option<u32>,
    /// Changes by people and programs in one minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes_per_minute: Option<u32>,
}

impl TenantQuotas {
    /// True without any limit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == TenantQuotas::default()
    }

    /// These limits, and those of `defaults` that are missing.
    #[must_use]
    pub fn or(self, defaults: Self) -> Self {
        TenantQuotas {
            clusters: self.clusters.or(defaults.clusters),
            tokens: self.tokens.or(defaults.tokens),
            catalogs: self.catalogs.or(defaults.catalogs),
            catalog_bytes: self.catalog_bytes.or(defaults.catalog_bytes),
            changes_per_minute: self.changes_per_minute.or(defaults.changes_per_minute),
        }
    }
}
