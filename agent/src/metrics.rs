//! Metrics of the agent. Labels are enums, never text from a request or an error.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use fairlead_api::Code;
use fairlead_dialer::DialStage;
use fairlead_runtime::{gauges::GaugeGuard, metrics::Registry};
use prometheus::{
    Gauge, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
};
use time::OffsetDateTime;

/// From half a millisecond to two minutes, as at the hub.
const SECONDS_BUCKETS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 120.0,
];

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
    const OUTCOME_COUNT: usize = RequestOutcome::Internal as usize + 1;

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
    /// Counters of `requests` since their first use, so that no request looks its counter up.
    outcomes: Arc<[OnceLock<IntCounter>; RequestOutcome::OUTCOME_COUNT]>,
    api: Histogram,
    streams: IntGauge,
    expiry: Gauge,
}

impl Metrics {
    /// Registers all metrics.
    ///
    /// # Errors
    ///
    /// One of them is already registered.
    pub(crate) fn new(registry: &Registry, version: &str) -> Result<Self, prometheus::Error> {
        let build = IntGaugeVec::new(
            Opts::new("fairlead_agent_build_info", "Always 1."),
            &["version"],
        )?;
        build.with_label_values(&[version]).set(1);
        registry.register(Box::new(build))?;
        let counters =
            |name, help, labels: &[&str]| IntCounterVec::new(Opts::new(name, help), labels);
        let metrics = Metrics {
            connected: IntGauge::new(
                "fairlead_agent_connected",
                "Sessions with the hub whose link is up.",
            )?,
            dials: counters(
                "fairlead_agent_dials_total",
                "Dials by outcome, last stage, and code of the failure.",
                &["outcome", "stage", "code"],
            )?,
            requests: counters(
                "fairlead_agent_requests_total",
                "Requests from the hub by outcome.",
                &["outcome"],
            )?,
            outcomes: Arc::default(),
            api: Histogram::with_opts(
                HistogramOpts::new(
                    "fairlead_agent_api_duration_seconds",
                    "Seconds until the head of the API server's answer to a request of a person.",
                )
                .buckets(SECONDS_BUCKETS.to_vec()),
            )?,
            streams: IntGauge::new("fairlead_agent_streams_open", "Open streams of the hub.")?,
            expiry: Gauge::new(
                "fairlead_certificate_expiry_timestamp_seconds",
                "Unix time at which the agent's certificate expires.",
            )?,
        };
        registry.register(Box::new(metrics.connected.clone()))?;
        registry.register(Box::new(metrics.dials.clone()))?;
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.api.clone()))?;
        registry.register(Box::new(metrics.streams.clone()))?;
        registry.register(Box::new(metrics.expiry.clone()))?;
        Ok(metrics)
    }

    pub(crate) fn dialled(&self) {
        self.dials.with_label_values(&["ok", "done", ""]).inc();
    }

    pub(crate) fn dial_failed(&self, stage: DialStage, code: Code) {
        self.dials
            .with_label_values(&["failed", stage.as_str(), &code.to_string()])
            .inc();
    }

    /// Notes the time until the head of an answer of the API server.
    pub(crate) fn api_answered(&self, time: Duration) {
        self.api.observe(time.as_secs_f64());
    }

    pub(crate) fn request(&self, outcome: RequestOutcome) {
        let counter = || self.requests.with_label_values(&[outcome.as_str()]);
        match self.outcomes.get(outcome as usize) {
            Some(known) => known.get_or_init(counter).inc(),
            None => counter().inc(),
        }
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
    fn outcomes_are_counted_apart_from_their_first_request_on() {
        let metrics = Metrics::new(&Registry::new(), "1.0.0").unwrap();
        metrics.request(RequestOutcome::Answered);
        metrics.request(RequestOutcome::Internal);
        metrics.request(RequestOutcome::Internal);
        let families = prometheus::core::Collector::collect(&metrics.requests);
        let counts = families.iter().flat_map(|family| family.get_metric());
        let mut counts: Vec<(String, u64)> = counts
            .map(|metric| {
                let outcome = metric.get_label().first().unwrap().value().to_owned();
                (outcome, metric.get_counter().get_value() as u64)
            })
            .collect();
        counts.sort();
        let expected = [("answered".to_owned(), 1), ("internal".to_owned(), 2)];
        assert_eq!(counts, expected);
    }

    #[test]
    fn registering_twice_is_an_error() {
        let registry = Registry::new();
        Metrics::new(&registry, "1.0.0").unwrap();
        assert!(Metrics::new(&registry, "1.0.0").is_err());
    }
}
