//! Metrics of the gateway. Labels are enums, never text from a request or an error. Gauges are guards that count down
//! on drop.

mod labels;

use std::{sync::OnceLock, time::Duration};

use fairlead_api::Code;
use fairlead_runtime::{Exemplars, metrics::Registry};
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    core::Collector,
};

pub(crate) use self::labels::{
    CloseCause, HandshakeOutcome, HopDirection, PhaseTimes, RequestEnd, ResetCause, SessionState,
    TlsLayer,
};

const REQUEST_SECONDS: &str = "fairlead_request_duration_seconds";
/// Violation rule: a peer sent bytes that are not HTTP.
pub(crate) const HTTP_VIOLATION: &str = "http";

/// From half a millisecond to two minutes.
const SECONDS_BUCKETS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 120.0,
];

pub(crate) struct Metrics {
    pub(crate) connections: IntGauge,
    pub(crate) traffic: TrafficMetrics,
    pub(crate) sessions_ended: IntCounterVec,
    pub(crate) wrong_tokens: IntCounter,
    failures: IntCounterVec,
    /// Cache of the vector above, by code.
    cached_failures: Box<[OnceLock<IntCounter>]>,
    violations: IntCounterVec,
    pub(crate) clones: IntCounter,
    pub(crate) upgrades_open: IntGauge,
    pub(crate) requests_open: IntGauge,
    pub(crate) reads_moved: IntCounter,
    pub(crate) services_failed: IntGauge,
    pub(crate) hubs: HubMetrics,
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    request_exemplars: Exemplars,
    /// Cache of the two vectors above, by outcome: a lookup by labels is slow.
    cached: [CachedSeries; RequestEnd::ALL.len()],
    handshakes: IntCounterVec,
    front_closed: IntCounterVec,
    stalled_resets: IntCounterVec,
    module_panics: IntCounterVec,
    tunnel_rtt: Histogram,
}

/// Metrics of the traffic between hubs.
pub(crate) struct HubMetrics {
    pub(crate) sessions: IntGauge,
    forwarded: IntCounterVec,
}

impl HubMetrics {
    fn register(to: &Registrar<'_>) -> prometheus::Result<Self> {
        Ok(HubMetrics {
            sessions: to.gauge(
                "fairlead_hub_sessions",
                "Open sessions to other hubs.",
            )?,
            forwarded: to.counters(
                "fairlead_forwarded_requests_total",
                "Requests that one hub forwarded to another, by direction and outcome; those towards a hub count once for each hub.",
                &["direction", "outcome"],
            )?,
        })
    }
}

/// Metrics of all sessions together. The collector of the session table updates and registers them.
pub(crate) struct TrafficMetrics {
    sessions: IntGaugeVec,
    pub(crate) resumptions: IntCounter,
    pub(crate) resumed_bytes: IntCounter,
    pub(crate) streams_open: IntGauge,
    pub(crate) streams: IntCounter,
    pub(crate) bytes: IntCounterVec,
}

impl TrafficMetrics {
    fn new() -> prometheus::Result<Self> {
        Ok(TrafficMetrics {
            sessions: gauges(
                "fairlead_sessions",
                "Open sessions of agents with an identity, by state.",
                &["state"],
            )?,
            resumptions: IntCounter::new(
                "fairlead_resumptions_total",
                "Links that took over the session of a broken one.",
            )?,
            resumed_bytes: IntCounter::new(
                "fairlead_resumed_bytes_total",
                "Bytes that the hub sent again over such links.",
            )?,
            streams_open: IntGauge::new("fairlead_streams_open", "Open streams of all sessions.")?,
            streams: IntCounter::new("fairlead_streams_total", "Streams opened on all sessions.")?,
            bytes: counters(
                "fairlead_bytes_total",
                "Bytes of all sessions, from the hub's view.",
                &["direction"],
            )?,
        })
    }

    pub(crate) fn all(&self) -> [&dyn Collector; 6] {
        let TrafficMetrics {
            sessions,
            resumptions,
            resumed_bytes,
            streams_open,
            streams,
            bytes,
        } = self;
        [
            sessions,
            resumptions,
            resumed_bytes,
            streams_open,
            streams,
            bytes,
        ]
    }

    /// Sets the number of sessions of each state, in the order of [`SessionState::ALL`].
    pub(crate) fn set_sessions(&self, counts: [i64; SessionState::ALL.len()]) {
        for (state, count) in SessionState::ALL.iter().zip(counts) {
            let gauge = self.sessions.with_label_values(&[state.as_str()]);
            gauge.set(count);
        }
    }
}

#[derive(Default)]
struct CachedSeries {
    requests: OnceLock<IntCounter>,
    /// In this order: gateway, wait, tunnel, API server.
    seconds: [OnceLock<Histogram>; 4],
}

impl Metrics {
    /// Registers all metrics.
    ///
    /// # Errors
    /// The registry has metrics of these names already.
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let to = Registrar(registry);
        let build = to.gauges("fairlead_build_info", "Always 1.", &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let metrics = Metrics {
            connections: to.gauge(
                "fairlead_front_connections",
                "Open connections of the front.",
            )?,
            traffic: TrafficMetrics::new()?,
            wrong_tokens: to.counter("fairlead_wrong_tokens_total", "Requests with a token that may be a guess.")?,
            failures: to.counters(
                "fairlead_failures_total",
                "Requests that failed at the hub or an agent, by code; `fairlead explain CODE` has the meaning.",
                &["code"],
            )?,
            cached_failures: Code::ALL.iter().map(|_| OnceLock::new()).collect(),
            sessions_ended: to.counters(
                "fairlead_sessions_ended_total",
                "Ended sessions by reason.",
                &["end"],
            )?,
            violations: to.counters(
                "fairlead_violations_total",
                "Protocol violations by rule, of agents and of peers that claim to be one. Each ends its own session or stream only.",
                &["rule"],
            )?,
            clones: to.counter("fairlead_clones_refused_total", "Clones rejected: agents with the identity of another Kubernetes cluster.")?,
            upgrades_open: to.gauge(
                "fairlead_upgrades_open",
                "Open upgraded connections: exec, attach and port-forward.",
            )?,
            requests_open: to.gauge(
                "fairlead_requests_open",
                "Requests with an unfinished answer.",
            )?,
            reads_moved: to.counter("fairlead_reads_moved_total", "Reads sent again over another session, because their own gave no answer.")?,
            services_failed: to.gauge(
                "fairlead_services_failed",
                "Named services that this hub cannot listen for; `fairlead service list` shows the causes.",
            )?,
            hubs: HubMetrics::register(&to)?,
            requests: to.counters(
                "fairlead_requests_total",
                "Finished requests by outcome.",
                &["outcome"],
            )?,
            request_seconds: to.histograms(
                REQUEST_SECONDS,
                "Seconds until the head of the answer, by phase: in the gateway, waiting for a session, in the tunnel, at the API server.",
                &["outcome", "phase"],
            )?,
            request_exemplars: Exemplars::default(),
            cached: Default::default(),
            handshakes: to.counters(
                "fairlead_handshakes_total",
                "TLS handshakes, of the front and of sessions.",
                &["layer", "outcome"],
            )?,
            front_closed: to.counters(
                "fairlead_front_closed_total",
                "Connections of the front that the hub closed, by cause.",
                &["cause"],
            )?,
            stalled_resets: to.counters(
                "fairlead_stalled_resets_total",
                "Answers and connections that the hub reset because their client took nothing, by cause.",
                &["cause"],
            )?,
            module_panics: to.counters(
                "fairlead_module_panics_total",
                "Panics of modules' background work; each one restarts it.",
                &["module"],
            )?,
            tunnel_rtt: to.histogram("fairlead_tunnel_rtt_duration_seconds", "Round-trip times of links.")?,
        };
        metrics.make_rows();
        registry.add_exemplars(REQUEST_SECONDS, &metrics.request_exemplars);
        Ok(metrics)
    }

    /// Makes the rows of fixed labels: without a row, the first event is no increase for Prometheus.
    fn make_rows(&self) {
        for cause in CloseCause::ALL {
            self.front_closed.with_label_values(&[cause.as_str()]);
        }
        for cause in ResetCause::ALL {
            self.stalled_resets.with_label_values(&[cause.as_str()]);
        }
        for outcome in RequestEnd::ALL {
            self.requests.with_label_values(&[outcome.as_str()]);
            for direction in HopDirection::ALL {
                let labels = [direction.as_str(), outcome.as_str()];
                self.hubs.forwarded.with_label_values(&labels);
            }
        }
        for outcome in HandshakeOutcome::ALL {
            for layer in [TlsLayer::Front, TlsLayer::Session] {
                self.handshakes
                    .with_label_values(&[layer.as_str(), outcome.as_str()]);
            }
        }
        self.violations.with_label_values(&[HTTP_VIOLATION]);
    }

    /// Counts the end of a request. `trace` is that of an exported trace, for the exemplars.
    pub(crate) fn request(&self, outcome: RequestEnd, phases: PhaseTimes, trace: Option<&str>) {
        let label = outcome.as_str();
        let Some(CachedSeries { requests, seconds }) = self.cached.get(outcome as usize) else {
            return;
        };
        requests
            .get_or_init(|| self.requests.with_label_values(&[label]))
            .inc();
        let times = [
            ("gateway", Some(phases.gateway)),
            ("wait", phases.wait),
            ("tunnel", phases.tunnel),
            ("api", phases.api),
        ];
        for (seconds, (phase, time)) in seconds.iter().zip(times) {
            if let Some(time) = time {
                seconds
                    .get_or_init(|| self.request_seconds.with_label_values(&[label, phase]))
                    .observe(time.as_secs_f64());
                if let Some(trace) = trace {
                    let exemplars = &self.request_exemplars;
                    exemplars.observe(&[label, phase], SECONDS_BUCKETS, time.as_secs_f64(), trace);
                }
            }
        }
    }

    /// Counts the end of a forwarded request, as the sender or the receiver of the hop.
    pub(crate) fn forwarded(&self, direction: HopDirection, outcome: RequestEnd) {
        self.hubs
            .forwarded
            .with_label_values(&[direction.as_str(), outcome.as_str()])
            .inc();
    }

    pub(crate) fn failure(&self, code: Code) {
        if let Some(cached) = self.cached_failures.get(code as usize) {
            let label = || self.failures.with_label_values(&[&code.to_string()]);
            cached.get_or_init(label).inc();
        }
    }

    pub(crate) fn handshake(&self, layer: TlsLayer, outcome: HandshakeOutcome) {
        self.handshakes
            .with_label_values(&[layer.as_str(), outcome.as_str()])
            .inc();
    }

    pub(crate) fn connection_closed(&self, cause: CloseCause) {
        self.front_closed.with_label_values(&[cause.as_str()]).inc();
    }

    pub(crate) fn stalled_reset(&self, cause: ResetCause) {
        self.stalled_resets
            .with_label_values(&[cause.as_str()])
            .inc();
    }

    /// Counts a panic. The name is a constant of the program, so it may be a label.
    pub(crate) fn module_panicked(&self, module: &'static str) {
        self.module_panics.with_label_values(&[module]).inc();
    }

    #[cfg(test)]
    pub(crate) fn module_panics(&self, module: &str) -> u64 {
        self.module_panics.with_label_values(&[module]).get()
    }

    pub(crate) fn violation(&self, rule: &str) {
        self.violations.with_label_values(&[rule]).inc();
    }

    pub(crate) fn rtt(&self, rtt: Duration) {
        self.tunnel_rtt.observe(rtt.as_secs_f64());
    }
}

fn counters(name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
    IntCounterVec::new(Opts::new(name, help), labels)
}

fn gauges(name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntGaugeVec> {
    IntGaugeVec::new(Opts::new(name, help), labels)
}

struct Registrar<'a>(&'a Registry);

impl Registrar<'_> {
    fn add<C: Collector + Clone + 'static>(&self, collector: C) -> prometheus::Result<C> {
        self.0.register(Box::new(collector.clone()))?;
        Ok(collector)
    }

    fn counter(&self, name: &str, help: &str) -> prometheus::Result<IntCounter> {
        self.add(IntCounter::new(name, help)?)
    }

    fn gauge(&self, name: &str, help: &str) -> prometheus::Result<IntGauge> {
        self.add(IntGauge::new(name, help)?)
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntGaugeVec> {
        self.add(gauges(name, help, labels)?)
    }

    fn counters(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> prometheus::Result<IntCounterVec> {
        self.add(counters(name, help, labels)?)
    }

    fn histogram(&self, name: &str, help: &str) -> prometheus::Result<Histogram> {
        let options = HistogramOpts::new(name, help).buckets(SECONDS_BUCKETS.to_vec());
        self.add(Histogram::with_opts(options)?)
    }

    fn histograms(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> prometheus::Result<HistogramVec> {
        let options = HistogramOpts::new(name, help).buckets(SECONDS_BUCKETS.to_vec());
        self.add(HistogramVec::new(options, labels)?)
    }
}
