//! Metrics of the audit log.

/// Metrics of the log.
#[derive(Clone)]
pub(crate) struct AuditMetrics {
    pub(crate) events: prometheus::IntCounter,
    pub(crate) lost: prometheus::IntCounter,
    pub(crate) failures: prometheus::IntCounter,
}

impl AuditMetrics {
    pub(crate) fn new() -> Result<Self, prometheus::Error> {
        let counter = prometheus::IntCounter::new;
        Ok(AuditMetrics {
            events: counter(
                "fairlead_audit_events_total",
                "Events written to the audit log.",
            )?,
            lost: counter(
                "fairlead_audit_events_lost_total",
                "Events that could not be written to the audit log.",
            )?,
            failures: counter(
                "fairlead_audit_write_failures_total",
                "Failed writes to the audit log; each is repeated.",
            )?,
        })
    }
}
