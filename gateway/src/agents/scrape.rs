//! Metrics of sessions that are read on each scrape. Values per cluster are not kept in between.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use fairlead_api::ClusterId;
use fairlead_runtime::metrics::Registry;
use prometheus::{
    core::{Collector, Desc},
    proto::{Gauge, LabelPair, Metric, MetricFamily, MetricType},
};
use time::OffsetDateTime;

use super::table::SessionTable;
use crate::metrics::Metrics;

const CLUSTER_LABEL: &str = "cluster";

/// Registers the collector.
///
/// # Errors
/// The registry has metrics of these names already.
pub(crate) fn register(
    sessions: &Arc<SessionTable>,
    metrics: &Arc<Metrics>,
    registry: &Registry,
) -> prometheus::Result<()> {
    registry.register(Box::new(SessionCollector::new(sessions, metrics)?))
}

struct SessionCollector {
    sessions: Weak<SessionTable>,
    metrics: Arc<Metrics>,
    certificates: PerCluster,
}

impl SessionCollector {
    fn new(
        sessions: &Arc<SessionTable>,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, prometheus::Error> {
        Ok(SessionCollector {
            sessions: Arc::downgrade(sessions),
            metrics: Arc::clone(metrics),
            certificates: PerCluster::new(
                "fairlead_agent_certificate_expiry_timestamp_seconds",
                "First expiry of a certificate of the cluster's connected agents, in Unix time.",
            )?,
        })
    }
}

impl Collector for SessionCollector {
    fn desc(&self) -> Vec<&Desc> {
        let mut all = self.metrics.streams_open.desc();
        all.extend(self.metrics.streams.desc());
        all.extend(self.metrics.bytes.desc());
        all.push(&self.certificates.0);
        all
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let expiries = self
            .sessions
            .upgrade()
            .map(|sessions| sessions.update_metrics());
        let mut all = self.metrics.streams_open.collect();
        all.extend(self.metrics.streams.collect());
        all.extend(self.metrics.bytes.collect());
        all.extend(expiries.map(|expiries| self.certificates.family(&expiries)));
        all
    }
}

/// A gauge with a value per cluster, in Unix time.
struct PerCluster(Desc);

impl PerCluster {
    fn new(name: &str, help: &str) -> Result<Self, prometheus::Error> {
        let labels = vec![CLUSTER_LABEL.to_owned()];
        Desc::new(name.to_owned(), help.to_owned(), labels, HashMap::new()).map(PerCluster)
    }

    fn family(&self, values: &HashMap<ClusterId, OffsetDateTime>) -> MetricFamily {
        let metrics = values.iter().map(|(cluster, at)| {
            let mut label = LabelPair::default();
            label.set_name(CLUSTER_LABEL.to_owned());
            label.set_value(cluster.to_string());
            let mut gauge = Gauge::default();
            gauge.set_value(at.unix_timestamp() as f64);
            let mut metric = Metric::from_label(vec![label]);
            metric.set_gauge(gauge);
            metric
        });
        let mut family = MetricFamily::default();
        family.set_name(self.0.fq_name.clone());
        family.set_help(self.0.help.clone());
        family.set_field_type(MetricType::GAUGE);
        family.set_metric(metrics.collect());
        family
    }
}
