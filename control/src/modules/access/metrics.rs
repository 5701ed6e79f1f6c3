//! Metrics of emergencies.

use prometheus::{IntCounter, IntGauge};

/// Metrics of emergencies.
pub(crate) struct EmergencyMetrics {
    pub(super) taken: IntCounter,
    pub(super) active: IntGauge,
    pub(super) unreviewed: IntGauge,
}

impl EmergencyMetrics {
    /// Makes the metrics; `upkeep` registers them.
    ///
    /// # Errors
    /// An invalid Prometheus name.
    pub(super) fn new() -> prometheus::Result<Self> {
        Ok(EmergencyMetrics {
            taken: IntCounter::new(
                "fairlead_break_glass_total",
                "Roles taken in an emergency at this hub.",
            )?,
            active: IntGauge::new(
                "fairlead_break_glass_active",
                "Roles taken in an emergency that are in effect, of all hubs.",
            )?,
            unreviewed: IntGauge::new(
                "fairlead_break_glass_unreviewed",
                "Roles taken in an emergency that wait for a review, of all hubs.",
            )?,
        })
    }
}
