//! Terms of a check of quotas.

use crate::model::TenantQuotas;

/// Changes of one tenant in one minute.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ChangeCount {
    pub(super) minute: i64,
    pub(super) changes: u32,
}

/// Default quotas, and the present share of this hub in the changes of a minute.
#[derive(Debug, Clone, Copy)]
pub(super) struct QuotaTerms {
    pub(super) defaults: TenantQuotas,
    /// Live hubs. Each grants an even part of the changes, so that all together keep the limit.
    pub(super) hubs: u32,
    /// Minutes since 1970.
    pub(super) minute: i64,
}
