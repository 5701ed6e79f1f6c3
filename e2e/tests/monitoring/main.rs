//! Metrics, alerts and dashboards with the real Prometheus.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod catalog;
mod collector;
mod files;
mod observe;
mod panels;
mod queries;
mod traces;

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use anyhow::{Context, ensure};
use fairlead_e2e::{Hub, Site, eventually, prometheus::promtool};
use serde_json::Value;

use crate::{
    catalog::Catalog,
    files::{alerts, dashboards, repository, rules},
    queries::QueryNames,
};

const STEP_DEADLINE: Duration = Duration::from_secs(20);
/// Kubeconfig of an API server that nobody reaches: metrics need none.
const UNREACHABLE: &str = r#"{ "apiVersion": "v1", "kind": "Config", "current-context": "none",
    "clusters": [{ "name": "none", "cluster": { "server": "https://127.0.0.1:1" } }],
    "users": [{ "name": "none", "user": { "token": "none" } }],
    "contexts": [{ "name": "none", "context": { "cluster": "none", "user": "none" } }] }"#;

/// A hub with all optional metrics, and a connected agent without an API server.
async fn hub_and_agent() -> anyhow::Result<(Hub, Site)> {
    let hub = Hub::start_server(&["--influx-url", "http://127.0.0.1:1"]).await?;
    hub.log_in().await?;
    let joining = hub.create_cluster("a").await?;
    let kubeconfig = hub.dir().join("unreachable.json");
    fs::write(&kubeconfig, UNREACHABLE)?;
    let site = Site::begin_by(&hub, &kubeconfig, &joining.join, &joining.id, &[])?;
    hub.wait_state("a", "ApiUnreachable").await?;
    Ok((hub, site))
}

#[tokio::test]
async fn promtool_accepts_the_metrics_of_hub_and_agent() -> anyhow::Result<()> {
    let (hub, site) = hub_and_agent().await?;
    for page in [hub.metrics().await?, site.metrics().await?] {
        ensure!(page.0.contains("fairlead_"), "{}", page.0);
        let output = promtool(hub.dir(), &["check", "metrics"], &page.0)?;
        ensure!(output.is_empty(), "{output}");
    }
    // The check can fail.
    let wrong = promtool(
        hub.dir(),
        &["check", "metrics"],
        "# TYPE x_total gauge\nx_total 1\n",
    );
    ensure!(wrong.is_err(), "{wrong:?}");
    Ok(())
}

#[tokio::test]
async fn queries_name_existing_metrics_and_labels() -> anyhow::Result<()> {
    let (hub, site) = hub_and_agent().await?;
    let catalog = Catalog::of(&hub, &site).await?;
    let rules = rules()?;
    let of_alerts = alerts(&rules)?
        .into_iter()
        .map(|it| (it.name, it.expression));
    let panels = dashboards()?.into_iter().flat_map(|it| it.panels);
    let of_panels = panels.flat_map(|it| {
        it.queries
            .into_iter()
            .map(move |query| (it.title.clone(), query))
    });
    let mut count = 0;
    for (place, query) in of_alerts.chain(of_panels) {
        catalog
            .check(&QueryNames::of(&query))
            .with_context(|| format!("{place}: {query}"))?;
        count += 1;
    }
    ensure!(count > 60, "{count} queries");
    let missing = QueryNames::of("rate(fairlead_no_such_total[5m])");
    ensure!(catalog.check(&missing).is_err());
    let missing = QueryNames::of("fairlead_sessions{no_such=\"x\"}");
    ensure!(catalog.check(&missing).is_err());
    Ok(())
}

#[test]
fn promtool_accepts_the_alerts_and_each_fires_for_its_fault() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let place = repository().join("deploy/prometheus");
    let path = |name: &str| place.join(name).display().to_string();
    promtool(folder.path(), &["check", "rules", &path("alerts.yaml")], "")?;
    promtool(
        folder.path(),
        &["test", "rules", &path("alerts_test.yaml")],
        "",
    )?;
    Ok(())
}

#[test]
fn each_alert_has_a_summary_a_page_of_the_book_and_tests() -> anyhow::Result<()> {
    let book = fs::read_to_string(repository().join("docs/alerts.md"))?;
    let headings: BTreeSet<&str> = book
        .lines()
        .filter_map(|it| it.strip_prefix("## "))
        .collect();
    let tests = fs::read_to_string(repository().join("deploy/prometheus/alerts_test.yaml"))?;
    let (faults, healthy) = tests
        .split_once("name: healthy")
        .context("no healthy test")?;
    let rules = rules()?;
    let all = alerts(&rules)?;
    let names: BTreeSet<&str> = all.iter().map(|it| it.name.as_str()).collect();
    ensure!(names == headings, "alerts {names:?}, headings {headings:?}");
    for alert in &all {
        let name = &alert.name;
        ensure!(
            ["critical", "warning"].contains(&alert.severity.as_str()),
            "{name}"
        );
        ensure!(alert.summary.ends_with('.'), "{name}: {}", alert.summary);
        let page = format!("alerts.html#{}", name.to_lowercase());
        ensure!(alert.runbook.ends_with(&page), "{name}: {}", alert.runbook);
        let fires = format!("- alertname: {name}\n");
        ensure!(faults.contains(&fires), "{name} has no test of its fault");
        ensure!(healthy.contains(&format!("alertname: {name},")), "{name}");
    }
    Ok(())
}

#[test]
fn dashboards_choose_their_prometheus_and_have_unique_ids() -> anyhow::Result<()> {
    let mut uids = BTreeSet::new();
    let all = dashboards()?;
    ensure!(all.len() == 3, "{}", all.len());
    for dashboard in all {
        ensure!(uids.insert(dashboard.uid.clone()), "{}", dashboard.uid);
        let variables: BTreeSet<&str> = dashboard.variables.iter().map(String::as_str).collect();
        ensure!(variables.contains("datasource"), "{}", dashboard.uid);
        for panel in &dashboard.panels {
            ensure!(panel.datasource == "${datasource}", "{}", panel.title);
            ensure!(!panel.queries.is_empty(), "{}", panel.title);
            for query in &panel.queries {
                let used = query.match_indices('$').map(|(at, _)| &query[at + 1..]);
                for variable in used.filter(|it| !it.starts_with("__")) {
                    let end = variable
                        .find(|c: char| !c.is_alphanumeric())
                        .unwrap_or(variable.len());
                    ensure!(variables.contains(&variable[..end]), "{query}");
                }
            }
        }
    }
    Ok(())
}

/// The link in `deploy/prometheus` and the chart's file are one.
#[test]
fn chart_and_folder_have_the_same_alerts() -> anyhow::Result<()> {
    let read = |path: &str| fs::read(repository().join(path)).context(path.to_owned());
    let own = read("deploy/prometheus/alerts.yaml")?;
    let charts = read("deploy/charts/fairlead-hub/files/alerts.yaml")?;
    ensure!(own == charts && !own.is_empty());
    let template = Path::new("deploy/charts/fairlead-hub/templates/rules.yaml");
    let template = fs::read_to_string(repository().join(template))?;
    ensure!(template.contains("files/alerts.yaml"), "{template}");
    Ok(())
}

#[tokio::test]
async fn top_shows_clusters_once_and_on_a_terminal() -> anyhow::Result<()> {
    let (hub, _site) = hub_and_agent().await?;
    let once = ["top", "--once", "--interval", "1s", "-o", "json"];
    let list: Value = serde_json::from_str(&hub.cli(once).await?.success()?)?;
    let row = &list["items"][0];
    ensure!(
        row["displayName"] == "a" && row["state"] == "ApiUnreachable",
        "{row}"
    );
    ensure!(row["agentVersions"][0].is_string(), "{row}");
    ensure!(
        row["requestsPerSecond"] == 0.0,
        "probes are no requests of people: {row}"
    );
    let mut terminal = hub.terminal(&["top"], 120)?;
    terminal.type_until("", "REQ/S*", STEP_DEADLINE).await?;
    terminal.type_until("n", "NAME*", STEP_DEADLINE).await?;
    terminal.write("/no-such\r")?;
    terminal
        .type_until("", "1 clusters, 0 connected, 0 shown", STEP_DEADLINE)
        .await?;
    terminal.write("q")?;
    let ended = terminal.wait(STEP_DEADLINE).await?;
    ensure!(ended.success(), "{ended}");
    eventually(STEP_DEADLINE, "the screen of before", async || {
        let screen = terminal.screen();
        screen.ends_with("\x1b[?25h\x1b[?1049l").then_some(())
    })
    .await
}
