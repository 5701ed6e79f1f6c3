//! The registry of metrics of a process. It also describes each metric, including metrics without a row so far.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, PoisonError, RwLock},
};

use prometheus::{
    core::Collector,
    proto::{MetricFamily, MetricType},
};

use crate::{exemplars::Exemplars, openmetrics};

/// Registered metrics of a process, with their descriptions; clones are the same registry.
#[derive(Clone, Default)]
pub struct Registry {
    metrics: prometheus::Registry,
    descriptions: Arc<RwLock<BTreeMap<String, Description>>>,
    exemplars: Arc<RwLock<BTreeMap<&'static str, Exemplars>>>,
}

struct Description {
    kind: MetricType,
    labels: Vec<String>,
    help: String,
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Registry::default()
    }

    /// Registers a collector.
    ///
    /// # Errors
    /// Another collector has a metric of the same name.
    pub fn register(&self, collector: Box<dyn Collector>) -> prometheus::Result<()> {
        let families = collector.collect();
        let mut described = BTreeMap::new();
        for description in collector.desc() {
            let family = families.iter().find(|it| it.name() == description.fq_name);
            let kind = family.map_or(MetricType::GAUGE, MetricFamily::get_field_type);
            let labels = description.variable_labels.clone();
            let help = description.help.clone();
            let description_of = Description { kind, labels, help };
            described.insert(description.fq_name.clone(), description_of);
        }
        self.metrics.register(collector)?;
        let mut descriptions = self.descriptions.write();
        let descriptions = descriptions.as_deref_mut();
        descriptions
            .unwrap_or_else(|poisoned| poisoned.get_mut())
            .extend(described);
        Ok(())
    }

    /// All metrics with at least one row.
    #[must_use]
    pub fn gather(&self) -> Vec<MetricFamily> {
        self.metrics.gather()
    }

    /// Adds the exemplars of a histogram.
    pub fn add_exemplars(&self, histogram: &'static str, exemplars: &Exemplars) {
        let mut all = self.exemplars.write();
        let all = all.as_deref_mut();
        all.unwrap_or_else(|poisoned| poisoned.get_mut())
            .insert(histogram, exemplars.clone());
    }

    /// All metrics in the text format of OpenMetrics, with exemplars.
    #[must_use]
    pub fn openmetrics(&self) -> String {
        let exemplars = self.exemplars.read();
        let exemplars = exemplars.unwrap_or_else(PoisonError::into_inner);
        openmetrics::encode(&self.gather(), |name| exemplars.get(name).cloned())
    }

    /// A Markdown table of all metrics: name, type, labels and meaning. Labels of a metric are those it declares, or those
    /// of its rows.
    #[must_use]
    pub fn describe(&self) -> String {
        let rows = self.gather();
        let descriptions = self.descriptions.read();
        let descriptions = descriptions.unwrap_or_else(PoisonError::into_inner);
        let mut table = "| metric | type | labels | meaning |\n|---|---|---|---|\n".to_owned();
        for (name, description) in descriptions.iter() {
            let mut labels = description.labels.clone();
            let family = rows.iter().find(|it| it.name() == name);
            let row = family.and_then(|it| it.get_metric().first());
            if let (true, Some(row)) = (labels.is_empty(), row) {
                labels.extend(row.get_label().iter().map(|it| it.name().to_owned()));
            }
            let labels: Vec<_> = labels.iter().map(|it| format!("`{it}`")).collect();
            let (labels, kind) = (labels.join(", "), kind(description.kind));
            // Writing to a String cannot fail.
            let _ = writeln!(
                table,
                "| `{name}` | {kind} | {labels} | {} |",
                description.help
            );
        }
        table
    }
}

const fn kind(kind: MetricType) -> &'static str {
    match kind {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM => "histogram",
        MetricType::SUMMARY => "summary",
        MetricType::UNTYPED => "untyped",
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{IntCounterVec, IntGauge, Opts};

    use super::*;

    #[test]
    fn table_lists_metrics_without_rows() {
        let registry = Registry::new();
        let opts = Opts::new("test_requests_total", "Requests by outcome");
        let counter = IntCounterVec::new(opts, &["outcome"]).unwrap();
        registry.register(Box::new(counter.clone())).unwrap();
        let gauge = IntGauge::new("test_open", "Open requests").unwrap();
        registry.register(Box::new(gauge)).unwrap();
        let table = registry.describe();
        let rows: Vec<_> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| `test_open` | gauge |  | Open requests |",
                "| `test_requests_total` | counter | `outcome` | Requests by outcome |",
            ]
        );
        assert!(registry.register(Box::new(counter)).is_err());
    }
}
