//! What the agent counts. Labels are enums, never text from a request or an error.

use fairlead_dialer::Stage;
use fairlead_runtime::{gauges::GaugeGuard, metrics::Registry};
use prometheus::{Gauge, IntCounterVec, IntGauge, Opts};
use time::OffsetDateTime;

/// How a request from the hub ended, as far as the agent sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    /// The API server answered, whatever it said.
    Answered,
    /// The API server took the upgrade.
    Upgraded,
    /// The hub's probe, and the API server is well.
    Probed,
    /// A plain TCP connection was opened.
    Connected,
    /// Not by this agent's rules.
    Refused,
    /// The API server, or the address of a CONNECT, cannot be reached.
    Unreachable,
    /// The API server took too long.
    Timeout,
    /// The agent's own fault.
    Internal,
}

impl RequestOutcome {
    const fn as_str(self) -> &'static str {
        match self {
            RequestOutcome::Answered => "answered",
            RequestOutcome::Upgraded => "upgraded",
            RequestOutcome::Probed => "probed",
            RequestOutcome::Connected => "connected",
            RequestOutcome::Refused => "refused",
            RequestOutcome::Unreachable => "unreachable",
            RequestOutcome::Timeout => "timeout",
            RequestOutcome::Internal => "internal",
        }
    }
}

/// All metrics of one agent; clones share them.
#[derive(Clone)]
pub(crate) struct Metrics {
    connected: IntGauge,
    dials: IntCounterVec,
    requests: IntCounterVec,
    streams: IntGauge,
    expiry: Gauge,
}

impl Metrics {
    /// # Errors
    /// One of them is registered already.
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let metrics = Metrics {
            connected: IntGauge::new(
                "fairlead_agent_connected",
                "Sessions with the hub whose link is up",
            )?,
            dials: IntCounterVec::new(
                Opts::new(
                    "fairlead_agent_dials_total",
                    "Dials by outcome and by how far they got",
                ),
                &["outcome", "stage"],
            )?,
            requests: IntCounterVec::new(
                Opts::new(
                    "fairlead_agent_requests_total",
                    "Requests from the hub by outcome",
                ),
                &["outcome"],
            )?,
            streams: IntGauge::new(
                "fairlead_agent_streams_open",
                "Streams of the hub that are open",
            )?,
            expiry: Gauge::new(
                "fairlead_certificate_expiry_timestamp_seconds",
                "Unix time at which the agent's certificate expires",
            )?,
        };
        registry.register(Box::new(metrics.connected.clone()))?;
        registry.register(Box::new(metrics.dials.clone()))?;
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.streams.clone()))?;
        registry.register(Box::new(metrics.expiry.clone()))?;
        Ok(metrics)
    }

    pub(crate) fn dialled(&self) {
        self.dials.with_label_values(&["ok", "done"]).inc();
    }

    pub(crate) fn dial_failed(&self, stage: Stage) {
        self.dials
            .with_label_values(&["failed", stage.as_str()])
            .inc();
    }

    pub(crate) fn request(&self, outcome: RequestOutcome) {
        self.requests.with_label_values(&[outcome.as_str()]).inc();
    }

    pub(crate) fn expires(&self, at: OffsetDateTime) {
        // Seconds since 1970 stay exact in an f64 for longer than certificates will.
        self.expiry.set(at.unix_timestamp() as f64);
    }

    pub(crate) fn hold_connected(&self) -> GaugeGuard {
        GaugeGuard::of(&self.connected)
    }

    pub(crate) fn hold_stream(&self) -> GaugeGuard {
        GaugeGuard::of(&self.streams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registering_twice_is_an_error_and_not_a_panic() {
        let registry = Registry::new();
        Metrics::new(&registry).unwrap();
        assert!(Metrics::new(&registry).is_err());
    }
}
