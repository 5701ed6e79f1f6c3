//! What sessions can tell only when they are asked: they are, when somebody asks for the metrics.

use std::sync::{Arc, Weak};

use fairlead_api::{Code, Failure};
use prometheus::{
    Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};

use super::table::Sessions;
use crate::metrics::Metrics;

/// # Errors
/// `FL-5101` if the registry has metrics of these names already.
pub(crate) fn register(
    sessions: &Arc<Sessions>,
    metrics: &Arc<Metrics>,
    registry: &Registry,
) -> Result<(), Failure> {
    let on_scrape = OnScrape(Arc::downgrade(sessions), Arc::clone(metrics));
    registry
        .register(Box::new(on_scrape))
        .map_err(|error| Failure::because(Code::Internal, error))
}

struct OnScrape(Weak<Sessions>, Arc<Metrics>);

impl Collector for OnScrape {
    fn desc(&self) -> Vec<&Desc> {
        let OnScrape(_, metrics) = self;
        let mut all = metrics.streams_open.desc();
        all.extend(metrics.streams.desc());
        all.extend(metrics.bytes.desc());
        all.extend(metrics.certificates.desc());
        all.extend(metrics.last_seen.desc());
        all.extend(metrics.last_good_probe.desc());
        all
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let OnScrape(sessions, metrics) = self;
        if let Some(sessions) = sessions.upgrade() {
            sessions.settle();
        }
        let mut all = metrics.streams_open.collect();
        all.extend(metrics.streams.collect());
        all.extend(metrics.bytes.collect());
        all.extend(metrics.certificates.collect());
        all.extend(metrics.last_seen.collect());
        all.extend(metrics.last_good_probe.collect());
        all
    }
}
