//! Data of the dashboards, and their pictures.

use std::fs;

use anyhow::ensure;
use fairlead_e2e::setting;

use super::world::World;
use crate::{
    files::{dashboards, repository},
    panels::{Series, draw},
};

impl World {
    /// Each query returns data over the whole run. Draws the dashboards into `FAIRLEAD_DASHBOARD_IMAGES`, or the folder `target`.
    pub(super) async fn dashboards_have_data(&self, range: (i64, i64)) -> anyhow::Result<()> {
        let images = setting("FAIRLEAD_DASHBOARD_IMAGES");
        let images = images.map_or_else(|| repository().join("target/dashboards"), Into::into);
        fs::create_dir_all(&images)?;
        let hub = self.hub.ready().admin_url.trim_start_matches("http://");
        let hub = hub.replace('.', "\\\\.");
        let mut empty = Vec::new();
        for dashboard in dashboards()? {
            let mut all = Vec::new();
            for panel in &dashboard.panels {
                let mut series = Vec::new();
                for (query, legend) in panel.queries.iter().zip(&panel.legends) {
                    let query = substituted(query, (&hub, &self.ids["a"]));
                    let result = self.prometheus.query_range(&query, range, 2).await?;
                    let found = Series::of(&result, legend);
                    if found.is_empty() {
                        empty.push(format!("{}: {}: {query}", dashboard.title, panel.title));
                    }
                    series.extend(found);
                }
                all.push(series);
            }
            let image = images.join(format!("dashboard-{}.svg", dashboard.name));
            fs::write(&image, draw(&dashboard, &all, range))?;
            eprintln!("drawn: {}", image.display());
        }
        ensure!(empty.is_empty(), "queries without data: {empty:#?}");
        Ok(())
    }
}

/// Values of the variables that Grafana would choose.
fn substituted(query: &str, (hub, cluster): (&str, &str)) -> String {
    let query = query.replace("$__rate_interval", "10s");
    query.replace("$hub", hub).replace("$cluster", cluster)
}
