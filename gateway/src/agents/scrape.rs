//! Metrics of sessions that are read on each scrape. Values per cluster are not kept in between.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use fairlead_api::{ClusterId, Code, Failure};
use fairlead_runtime::metrics::Registry;
use prometheus::{
    core::{Collector, Desc},
    proto::{Gauge, LabelPair, Metric, MetricFamily, MetricType},
};
use time::OffsetDateTime;

use super::table::Sessions;
use crate::metrics::Metrics;

const CLUSTER: &str = "cluster";

/// Registers the collector.
///
/// # Errors
/// `FL-5101` if the registry has metrics of these names already.
pub(crate) fn register(
    sessions: &Arc<Sessions>,
    metrics: &Arc<Metrics>,
    registry: &Registry,
) -> Result<(), Failure> {
    let registered = OnScrape::new(sessions, metrics)
        .and_then(|on_scrape| registry.register(Box::new(on_scrape)));
    registered.map_err(|error| Failure::because(Code::Internal, error))
}

struct OnScrape {
    sessions: Weak<Sessions>,
    metrics: Arc<Metrics>,
    certificates: PerCluster,
}

impl OnScrape {
    fn new(sessions: &Arc<Sessions>, metrics: &Arc<Metrics>) -> Result<Self, prometheus::Error> {
        Ok(OnScrape {
            sessions: Arc::downgrade(sessions),
            metrics: Arc::clone(metrics),
            certificates: PerCluster::new(
                "fairlead_agent_certificate_expiry_timestamp_seconds",
                "When the first certificate of a cluster's connected agents expires, in Unix time.",
            )?,
        })
    }
}

impl Collector for OnScrape {
    fn desc(&self) -> Vec<&Desc> {
        let mut all = self.metrics.streams_open.desc();
        all.extend(self.metrics.streams.desc());
        all.extend(self.metrics.bytes.desc());
        all.push(&self.certificates.0);
        all
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let expiries = self.sessions.upgrade().map(|sessions| sessions.settle());
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
        let labels = vec![CLUSTER.to_owned()];
        Desc::new(name.to_owned(), help.to_owned(), labels, HashMap::new()).map(PerCluster)
    }

    fn family(&self, values: &HashMap<ClusterId, OffsetDateTime>) -> MetricFamily {
        let metrics = values.iter().map(|(cluster, at)| {
            let mut label = LabelPair::default();
            label.set_name(CLUSTER.to_owned());
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
