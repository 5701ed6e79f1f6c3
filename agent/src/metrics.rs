//! Metrics of the agent. Labels are enums, never text from a request or an error.

use fairlead_dialer::DialStage;
use fairlead_runtime::{gauges::GaugeGuard, metrics::Registry};
use prometheus::{Gauge, IntCounterVec, IntGauge, Opts};
use time::OffsetDateTime;

/// Outcome of a request from the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    /// Answered by the API server, with any status.
    Answered,
    /// Upgraded by the API server.
    Upgraded,
    /// Probe of the hub, answered by a healthy API server.
    Probed,
    /// Plain TCP connection opened.
    Connected,
    /// Rejected by this agent's rules.
    Refused,
    /// API server, or address of a CONNECT, unreachable.
    Unreachable,
    /// Timeout of the API server.
    Timeout,
    /// Internal error of the agent.
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

/// Metrics of one agent; clones share them.
#[derive(Clone)]
pub(crate) struct Metrics {
    connected: IntGauge,
    dials: IntCounterVec,
    requests: IntCounterVec,
    streams: IntGauge,
    expiry: Gauge,
}

impl Metrics {
    /// Registers all metrics.
    ///
    /// # Errors
    ///
    /// One of them is already registered.
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let metrics = Metrics {
            connected: IntGauge::new(
                "fairlead_agent_connected",
                "Sessions with the hub whose link is up",
            )?,
            dials: IntCounterVec::new(
                Opts::new(
                    "fairlead_agent_dials_total",
                    "Dials by outcome and by last stage",
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
            streams: IntGauge::new("fairlead_agent_streams_open", "Open streams of the hub")?,
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

    pub(crate) fn dial_failed(&self, stage: DialStage) {
        self.dials
            .with_label_values(&["failed", stage.as_str()])
            .inc();
    }

    pub(crate) fn request(&self, outcome: RequestOutcome) {
        self.requests.with_label_values(&[outcome.as_str()]).inc();
    }

    pub(crate) fn expires(&self, at: OffsetDateTime) {
        // An f64 represents Unix seconds exactly far beyond any certificate's life.
        self.expiry.set(at.unix_timestamp() as f64);
    }

    pub(crate) fn count_connected(&self) -> GaugeGuard {
        GaugeGuard::of(&self.connected)
    }

    pub(crate) fn count_stream(&self) -> GaugeGuard {
        GaugeGuard::of(&self.streams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registering_twice_is_an_error() {
        let registry = Registry::new();
        Metrics::new(&registry).unwrap();
        assert!(Metrics::new(&registry).is_err());
    }
}
