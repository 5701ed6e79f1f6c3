//! Traces of requests in a real collector of OpenTelemetry, and exemplars in a real Prometheus.

use std::{fs, time::Duration};

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, RawAnswer, Site, eventually, prometheus::Prometheus};

use crate::collector::{CollectedSpan, Collector};

const EXEMPLARS_DEADLINE: Duration = Duration::from_secs(30);
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
/// Its cluster has an agent without a collector.
const TRACE_ALONE: &str = "1af7651916cd43dd8448eb211c80319c";
const TRACE_UNSAMPLED: &str = "2af7651916cd43dd8448eb211c80319c";
const CLIENT: &str = "b7ad6b7169203331";

#[tokio::test]
#[ignore = "builds a collector: make traces"]
async fn traces_have_spans_of_hub_agent_and_api_server() -> anyhow::Result<()> {
    let cluster = Cluster::shared().await?;
    let folder = tempfile::tempdir()?;
    let mut collector = Collector::start(folder.path()).await?;
    let url = collector.url();
    let flags = ["--otlp-endpoint", &url, "--trace-ratio", "0"];
    let hub = Hub::start_with(&flags).await?;
    let mut sites = Vec::new();
    for name in ["a", "b"] {
        let joining = hub.create_cluster(name).await?;
        let flags: &[&str] = if name == "a" { &flags } else { &[] };
        let kubeconfig = cluster.kubeconfig();
        let site = Site::begin_by(&hub, &kubeconfig, &joining.join, &joining.id, flags)?;
        hub.wait_state(name, "Connected").await?;
        sites.push((joining.id, site));
    }
    let [(a, _), (b, _)] = sites.as_slice() else {
        anyhow::bail!("{} sites", sites.len());
    };
    for (id, trace, flag) in [
        (a, TRACE_UNSAMPLED, "00"),
        (b, TRACE_ALONE, "01"),
        (a, TRACE, "01"),
    ] {
        let parent = format!("00-{trace}-{CLIENT}-{flag}");
        let answer = pods(&hub, id, &parent).await?;
        ensure!(answer.status == 200, "{}: {}", answer.status, answer.text());
    }

    let whole = collector.trace(TRACE, 4).await?;
    let path = ["front", "session", "agent", "api-server"];
    check_chain(&whole, &path, &["hub", "hub", "agent", "agent"])?;
    let alone = collector.trace(TRACE_ALONE, 2).await?;
    check_chain(&alone, &["front", "session"], &["hub", "hub"])?;
    let session = alone.iter().find(|it| it.name == "session");
    let attributes = session.context("no session")?.attributes.to_string();
    ensure!(attributes.contains("fairlead.api.duration"), "{attributes}");
    let text = collector.text()?;
    for secret in [hub.token()?.as_str(), "secret-query", TRACE_UNSAMPLED] {
        ensure!(!text.contains(secret), "{secret} is in the traces");
    }
    exemplars(&hub, folder.path()).await
}

async fn pods(hub: &Hub, cluster: &str, parent: &str) -> anyhow::Result<RawAnswer> {
    let front = hub.front()?;
    let path = format!("/k8s/clusters/{cluster}/api/v1/namespaces/default/pods");
    let request = format!(
        "GET {path}?labelSelector=secret-query HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\ntraceparent: {parent}\r\n\
         Connection: close\r\n\r\n",
        front.address(),
        hub.token()?,
    );
    front.send(request).await
}

/// Checks that each span is a part of the one before, and the first one a part of the client's.
fn check_chain(spans: &[CollectedSpan], path: &[&str], of: &[&str]) -> anyhow::Result<()> {
    ensure!(spans.len() == path.len(), "{spans:#?}");
    let mut parent = CLIENT.to_owned();
    for (name, service) in path.iter().zip(of) {
        let span = spans.iter().find(|it| it.name == *name);
        let span = span.with_context(|| format!("no {name} in {spans:#?}"))?;
        ensure!(span.parent == parent, "{name}: {spans:#?}");
        ensure!(span.service == format!("fairlead-{service}"), "{span:?}");
        parent.clone_from(&span.id);
    }
    Ok(())
}

/// A real Prometheus reads the exemplars, and with them all metrics in their format.
async fn exemplars(hub: &Hub, folder: &std::path::Path) -> anyhow::Result<()> {
    let admin = hub.ready().admin_url.trim_start_matches("http://");
    let folder = folder.join("prometheus");
    fs::create_dir(&folder)?;
    let jobs = [("hub", vec![admin.parse()?])];
    let prometheus = Prometheus::start(&folder, &jobs, "groups: []\n").await?;
    let mut last = String::new();
    let found = eventually(EXEMPLARS_DEADLINE, "exemplars of both traces", async || {
        let query = "fairlead_request_duration_seconds_bucket";
        let found = prometheus.exemplars(query).await.ok()?;
        last = serde_json::to_string(&found).ok()?;
        [TRACE, TRACE_ALONE]
            .iter()
            .all(|it| last.contains(it))
            .then_some(())
    });
    found.await.with_context(|| last.clone())?;
    let up = prometheus.query("up").await?;
    ensure!(up.iter().all(|it| it["value"][1] == "1"), "{up:?}");
    Ok(())
}
