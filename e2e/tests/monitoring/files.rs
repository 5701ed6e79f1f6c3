//! Rules and dashboards of `deploy/`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde_json::Value;

/// The checkout.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Text of the rules.
pub(crate) fn rules() -> anyhow::Result<String> {
    let path = repository().join("deploy/prometheus/alerts.yaml");
    Ok(fs::read_to_string(path)?)
}

/// An alert.
#[derive(Debug)]
pub(crate) struct Alert {
    pub(crate) name: String,
    pub(crate) expression: String,
    pub(crate) severity: String,
    pub(crate) summary: String,
    pub(crate) runbook: String,
}

pub(crate) fn alerts(rules: &str) -> anyhow::Result<Vec<Alert>> {
    let documents = fairlead_manifests::yaml::values("rules", rules.as_bytes())?;
    let (document, _) = documents.first().context("no rules")?;
    let groups = document["groups"].as_array().context("no groups")?;
    let rules = groups.iter().filter_map(|it| it["rules"].as_array());
    let alert = |rule: &Value| {
        let text = |pointer: &str| {
            let text = rule.pointer(pointer).and_then(Value::as_str);
            let text = text.map(str::to_owned);
            text.with_context(|| format!("{rule}: no {pointer}"))
        };
        Ok(Alert {
            name: text("/alert")?,
            expression: text("/expr")?,
            severity: text("/labels/severity")?,
            summary: text("/annotations/summary")?,
            runbook: text("/annotations/runbook_url")?,
        })
    };
    rules.flatten().map(alert).collect()
}

/// A dashboard of Grafana.
#[derive(Debug)]
pub(crate) struct Dashboard {
    /// Name of its file.
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) title: String,
    pub(crate) variables: Vec<String>,
    pub(crate) panels: Vec<DashboardPanel>,
}

/// A panel with queries.
#[derive(Debug, Clone)]
pub(crate) struct DashboardPanel {
    pub(crate) title: String,
    pub(crate) kind: String,
    pub(crate) unit: String,
    pub(crate) datasource: String,
    pub(crate) queries: Vec<String>,
    pub(crate) legends: Vec<String>,
    /// Left, top, width and height, in units of the grid of 24 columns.
    pub(crate) place: [u32; 4],
}

pub(crate) fn dashboards() -> anyhow::Result<Vec<Dashboard>> {
    let folder = repository().join("deploy/grafana");
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)?
        .map(|it| Ok(it?.path()))
        .collect::<anyhow::Result<_>>()?;
    paths.sort();
    paths.iter().map(|path| dashboard(path)).collect()
}

fn dashboard(path: &Path) -> anyhow::Result<Dashboard> {
    let document: Value = serde_json::from_slice(&fs::read(path)?)?;
    let text = |value: &Value, pointer: &str| {
        let text = value.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let panels = list(&document["panels"]).into_iter();
    let panels = panels.filter(|it| it["type"] != "row").map(|panel| {
        let targets = list(&panel["targets"]);
        let number = |field: &str| panel["gridPos"][field].as_u64().unwrap_or_default() as u32;
        DashboardPanel {
            title: text(&panel, "/title"),
            kind: text(&panel, "/type"),
            unit: text(&panel, "/fieldConfig/defaults/unit"),
            datasource: text(&panel, "/datasource/uid"),
            queries: targets.iter().map(|it| text(it, "/expr")).collect(),
            legends: targets.iter().map(|it| text(it, "/legendFormat")).collect(),
            place: ["x", "y", "w", "h"].map(number),
        }
    });
    let variables = list(&document["templating"]["list"]);
    Ok(Dashboard {
        name: path
            .file_stem()
            .context("no name")?
            .to_string_lossy()
            .into_owned(),
        uid: text(&document, "/uid"),
        title: text(&document, "/title"),
        variables: variables.iter().map(|it| text(it, "/name")).collect(),
        panels: panels.collect(),
    })
}
