//! Names and labels of all metrics of a running hub and agent.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use fairlead_e2e::{Hub, Site, admin::get_plain};

use crate::queries::QueryNames;

/// Labels that Prometheus adds to each series.
const TARGET_LABELS: [&str; 2] = ["job", "instance"];

/// Labels by metric.
#[derive(Debug)]
pub(crate) struct Catalog(BTreeMap<String, BTreeSet<String>>);

impl Catalog {
    /// Reads the descriptions of both, which include metrics without a row.
    pub(crate) async fn of(hub: &Hub, site: &Site) -> anyhow::Result<Self> {
        let admin = hub.ready().admin_url.trim_start_matches("http://");
        let pages = [
            get_plain(admin.parse()?, "/metrics/help").await?,
            site.admin_get("/metrics/help").await?,
        ];
        let mut catalog = Catalog(BTreeMap::new());
        // Prometheus makes it itself.
        catalog.add("up", &[]);
        for row in pages.iter().flat_map(|page| page.lines().skip(2)) {
            let mut columns = row.split(" | ");
            let mut next = || columns.next().map(|it| it.trim_matches(['|', ' ']));
            let (name, kind, labels) = (next(), next(), next());
            let name = name.with_context(|| row.to_owned())?.trim_matches('`');
            let labels = labels.unwrap_or_default().split(", ");
            let mut labels: Vec<&str> = labels.map(|it| it.trim_matches('`')).collect();
            match kind {
                Some("histogram") => {
                    catalog.add(&format!("{name}_sum"), &labels);
                    catalog.add(&format!("{name}_count"), &labels);
                    labels.push("le");
                    catalog.add(&format!("{name}_bucket"), &labels);
                }
                _ => catalog.add(name, &labels),
            }
        }
        ensure!(catalog.0.len() > 60, "{catalog:?}");
        Ok(catalog)
    }

    /// Adds labels; hub and agent may have a metric of the same name.
    fn add(&mut self, name: &str, labels: &[&str]) {
        let known = self.0.entry(name.to_owned()).or_default();
        let labels = labels.iter().chain(&TARGET_LABELS);
        known.extend(labels.filter(|it| !it.is_empty()).map(ToString::to_string));
    }

    /// # Errors
    /// A metric or label does not exist.
    pub(crate) fn check(&self, names: &QueryNames) -> anyhow::Result<()> {
        let mut all = BTreeSet::new();
        for (metric, labels) in &names.metrics {
            let known = self.0.get(metric);
            let known = known.with_context(|| format!("no metric {metric}"))?;
            let unknown: Vec<_> = labels.difference(known).collect();
            ensure!(unknown.is_empty(), "{metric} has no labels {unknown:?}");
            all.extend(known.iter().cloned());
        }
        let unknown: Vec<_> = names.labels.difference(&all).collect();
        ensure!(
            unknown.is_empty(),
            "no metric of it has the labels {unknown:?}"
        );
        Ok(())
    }
}
