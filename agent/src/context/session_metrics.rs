//! Metrics of the agent's sessions, read on each scrape.

use std::sync::Arc;

use prometheus::{
    Gauge, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};

use super::{hubs::KnownHubs, sessions::ServingSessions};

/// Metrics of all sessions of one agent.
pub(crate) struct SessionMetrics {
    sessions: Arc<ServingSessions>,
    hubs: Arc<KnownHubs>,
    links: IntGaugeVec,
    desired: IntGauge,
    bytes: IntCounterVec,
    resumptions: IntCounter,
    resumed_bytes: IntCounter,
    rtt: Gauge,
}

impl SessionMetrics {
    /// Makes the metrics.
    ///
    /// # Errors
    /// An invalid Prometheus name.
    pub(crate) fn new(
        sessions: &Arc<ServingSessions>,
        hubs: &Arc<KnownHubs>,
    ) -> prometheus::Result<Self> {
        Ok(SessionMetrics {
            sessions: Arc::clone(sessions),
            hubs: Arc::clone(hubs),
            links: IntGaugeVec::new(
                Opts::new(
                    "fairlead_agent_links",
                    "Links of sessions with the hub, by state.",
                ),
                &["state"],
            )?,
            desired: IntGauge::new(
                "fairlead_agent_links_desired",
                "Number of links that the agent keeps.",
            )?,
            bytes: IntCounterVec::new(
                Opts::new(
                    "fairlead_agent_bytes_total",
                    "Bytes of all sessions, from the agent's view.",
                ),
                &["direction"],
            )?,
            resumptions: IntCounter::new(
                "fairlead_agent_resumptions_total",
                "Links that took over the session of a broken one.",
            )?,
            resumed_bytes: IntCounter::new(
                "fairlead_agent_resumed_bytes_total",
                "Bytes that the agent sent again over such links.",
            )?,
            rtt: Gauge::new(
                "fairlead_agent_rtt_duration_seconds",
                "Shortest round trip of the links that are up; 0 without one.",
            )?,
        })
    }

    fn update(&self) {
        let desired = i64::try_from(self.hubs.desired_links());
        self.desired.set(desired.unwrap_or(i64::MAX));
        let traffic = self.sessions.traffic();
        let set = |state: &str, count: usize| {
            let gauge = self.links.with_label_values(&[state]);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        };
        set("up", traffic.links_up);
        set("down", traffic.links_down);
        // Traffic never falls: it includes the ended sessions.
        let raise =
            |counter: &IntCounter, to: u64| counter.inc_by(to.saturating_sub(counter.get()));
        raise(&self.bytes.with_label_values(&["in"]), traffic.bytes_in);
        raise(&self.bytes.with_label_values(&["out"]), traffic.bytes_out);
        raise(&self.resumptions, traffic.resumptions);
        raise(&self.resumed_bytes, traffic.bytes_repeated);
        self.rtt.set(traffic.rtt.unwrap_or_default().as_secs_f64());
    }

    fn all(&self) -> [&dyn Collector; 6] {
        let SessionMetrics {
            links,
            desired,
            bytes,
            resumptions,
            resumed_bytes,
            rtt,
            ..
        } = self;
        [links, desired, bytes, resumptions, resumed_bytes, rtt]
    }
}

impl Collector for SessionMetrics {
    fn desc(&self) -> Vec<&Desc> {
        let all = self.all().into_iter();
        all.flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.update();
        let all = self.all().into_iter();
        all.flat_map(Collector::collect).collect()
    }
}
