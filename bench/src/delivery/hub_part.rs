//! The hub's part: a real hub with thousands of connected clusters and their deployments.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context as _, ensure};
use fairlead_api::{JoinString, resources::JoinInfo};
use hyper::header;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{Args, TENANT, bundles, database::Database, light_fleet::LightFleet};
use crate::{
    hub::{
        client::{BenchCaller, HubRequest},
        figures::Figures,
        measure::measure,
        process::{Hub, HubHome},
    },
    launch::Launcher,
};

/// Concurrent writers. The hub commits their changes together.
const WRITER_COUNT: usize = 16;
/// Time for the hub to end its work before a measurement at rest.
const SETTLE_TIME: Duration = Duration::from_secs(10);
/// Random bytes of the content of the wave: about 100 kB packed.
const ARTIFACT_BYTES: usize = 87_000;
/// Rounds of reports, each of one state per cluster. An even number: all are ready in the end.
const REPORT_ROUNDS: usize = 4;
const PAGE_ITEMS: usize = 100;
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const ROLLOUT_DEADLINE: Duration = Duration::from_secs(120);

/// Hub, agents and database of one store.
struct HubBench<'a> {
    args: &'a Args,
    hub: Hub,
    fleet: LightFleet,
    database: Database,
    figures: Figures,
}

/// A hub without work.
struct HubAtRest {
    memory: f64,
    /// Share of a core.
    cpu: f64,
    /// Writes of delivery.
    writes: i64,
}

pub(super) async fn run(
    args: &Args,
    launcher: &Launcher,
    name: &'static str,
    store: Option<String>,
) -> anyhow::Result<Figures> {
    eprintln!("{name}: {} clusters", args.clusters);
    let dir = TempDir::with_prefix("fairlead-bench-")?;
    let home = HubHome {
        fairlead: args.fairlead.clone(),
        data: dir.path().join("hub"),
        store: store.clone(),
    };
    let mut hub = home.start(launcher).await?;
    let database = match store {
        None => Database::sqlite(&home.database()),
        Some(url) => Database::postgres(&url)?,
    };
    let joins = create_clusters(&hub, args.clusters).await?;
    let fleet = LightFleet::start(joins, hub.tls())?;
    fleet.until_connected(&mut hub).await?;
    let mut bench = HubBench {
        args,
        hub,
        fleet,
        database,
        figures: Figures::of(name),
    };
    let before = bench.rest().await?;
    bench.fill().await?;
    bench.compare(&before).await?;
    bench.wave(before.cpu).await?;
    bench.reports(before.cpu).await?;
    bench.pages().await?;
    if bench.fleet.has_failures() {
        eprintln!("  {}", bench.fleet.failures());
    }
    drop(bench.fleet);
    bench.hub.stop().await?;
    Ok(bench.figures)
}

/// Creates the tenant of all clusters and bundles.
pub(super) async fn create_tenant(hub: &Hub) -> anyhow::Result<()> {
    let repo = json!({ "url": "ssh://git@git.example.com/tenant.git", "type": "unmanaged" });
    let tenant = HubRequest::post("/tenants", &json!({ "id": TENANT, "gitRepo": repo }));
    hub.caller()?.good(&tenant, &hub.token).await?;
    Ok(())
}

pub(super) async fn create_cluster(
    caller: &mut BenchCaller,
    token: &str,
    number: usize,
) -> anyhow::Result<JoinInfo> {
    let body = json!({
        "id": format!("c-bench-{number:05}"),
        "tenant": TENANT,
        "displayName": format!("Benchmark {number}"),
        "annotations": { "env": "bench" },
    });
    let request = HubRequest::post("/clusters", &body);
    let answer = caller.good(&request, token).await?;
    Ok(serde_json::from_slice(&answer.body)?)
}

/// Creates clusters through the API; returns their join strings.
async fn create_clusters(hub: &Hub, count: usize) -> anyhow::Result<Vec<JoinString>> {
    create_tenant(hub).await?;
    let next = Arc::new(AtomicUsize::new(0));
    let mut writers = JoinSet::new();
    for _ in 0..WRITER_COUNT {
        let (mut caller, next, token) = (hub.caller()?, Arc::clone(&next), hub.token.clone());
        writers.spawn(async move {
            let mut joins = Vec::new();
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= count {
                    return anyhow::Ok(joins);
                }
                let created = create_cluster(&mut caller, &token, number).await?;
                joins.push(created.join.expose_secret().parse()?);
                if number % 1000 == 999 {
                    eprintln!("  {} of {count} clusters", number + 1);
                }
            }
        });
    }
    let mut joins = Vec::new();
    while let Some(created) = writers.join_next().await {
        joins.extend(created??);
    }
    Ok(joins)
}

impl HubBench<'_> {
    /// Measures the hub while nothing happens.
    async fn rest(&mut self) -> anyhow::Result<HubAtRest> {
        let time = Duration::try_from_secs_f64(self.args.rest_seconds)?;
        eprintln!("  at rest for {:?}", SETTLE_TIME + time);
        sleep(SETTLE_TIME).await;
        let (micros, writes) = (self.hub.micros()?, self.database.writes().await?);
        let begun = Instant::now();
        sleep(time).await;
        let seconds = begun.elapsed().as_secs_f64();
        let micros = self.hub.micros()? - micros;
        Ok(HubAtRest {
            memory: self.hub.memory()? as f64 / 1e6,
            cpu: micros as f64 / 1e6 / seconds,
            writes: self.database.writes().await? - writes,
        })
    }

    fn deployments(&self) -> usize {
        self.args.clusters * self.args.bundles
    }

    /// Makes all bundles, and waits until each cluster has reported each of them.
    async fn fill(&mut self) -> anyhow::Result<()> {
        eprintln!("  {} bundles", self.args.bundles);
        let mut caller = self.hub.caller()?;
        for number in 0..self.args.bundles {
            let files = [("bench.yaml".to_owned(), bundles::random_manifest(500)?)];
            let content = bundles::upload(&mut caller, &self.hub, &files).await?;
            let document = bundles::document(&content.id);
            bundles::put(&mut caller, &self.hub, &bundles::id(number), &document).await?;
        }
        let deployments = self.deployments();
        self.fleet.until_ready(&mut self.hub, deployments).await?;
        for number in 0..self.args.bundles {
            self.until_done(&mut caller, &bundles::id(number), 1)
                .await?;
        }
        Ok(())
    }

    /// Waits until the rollout of this generation is done.
    async fn until_done(
        &self,
        caller: &mut BenchCaller,
        bundle: &str,
        generation: u64,
    ) -> anyhow::Result<()> {
        let request = HubRequest::get(format!("/v1/rollouts?bundle={bundle}"));
        let deadline = Instant::now() + ROLLOUT_DEADLINE;
        loop {
            let answer = caller.good(&request, &self.hub.token).await?;
            let list: Value = serde_json::from_slice(&answer.body)?;
            let items = list.get("items").and_then(Value::as_array);
            let mut items = items.into_iter().flatten();
            let is_done = items.any(|it| {
                it.get("to") == Some(&json!(generation)) && it.get("state") == Some(&json!("Done"))
            });
            if is_done {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "rollout not done: {list}");
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Compares the hub at rest with and without deployments.
    async fn compare(&mut self, before: &HubAtRest) -> anyhow::Result<()> {
        let after = self.rest().await?;
        let deployments = self.deployments() as f64;
        let bytes = self.database.deployment_bytes().await? as f64;
        let to = &mut self.figures;
        to.add("memory without bundles", before.memory, "MB", None);
        let more = after.memory - before.memory;
        to.add("memory at rest, more than without", more, "MB", Some(150.0));
        let cpu = before.cpu * 100.0;
        to.add("CPU at rest without bundles", cpu, "% of a core", None);
        let more = (after.cpu - before.cpu) * 100.0;
        to.add(
            "CPU at rest, more than without",
            more,
            "% of a core",
            Some(1.0),
        );
        to.add(
            "writes of delivery at rest",
            after.writes as f64,
            "",
            Some(0.0),
        );
        let each = bytes / deployments;
        to.add("stored per deployment", each, "B", Some(300.0));
        Ok(())
    }

    /// Releases a new generation of one bundle to all clusters at once.
    async fn wave(&mut self, cpu_at_rest: f64) -> anyhow::Result<()> {
        eprintln!("  one commit to all clusters");
        let mut caller = self.hub.caller()?;
        let text = bundles::random_manifest(ARTIFACT_BYTES)?;
        let files = [("bench.yaml".to_owned(), text)];
        let content = bundles::upload(&mut caller, &self.hub, &files).await?;
        let (bundle, document) = (bundles::id(0), bundles::document(&content.id));
        self.fleet.shared.fetches.store(true, Relaxed);
        let (begun, micros) = (Instant::now(), self.hub.micros()?);
        self.fleet.begin_wave(begun);
        bundles::put(&mut caller, &self.hub, &bundle, &document).await?;
        let clusters = self.args.clusters;
        self.fleet.until_ready(&mut self.hub, clusters).await?;
        let (micros, seconds) = (self.hub.micros()? - micros, begun.elapsed().as_secs_f64());
        self.until_done(&mut caller, &bundle, 2).await?;
        let shared = &self.fleet.shared;
        let to = &mut self.figures;
        let size = shared.artifact_bytes.load(Relaxed) as f64 / clusters as f64 / 1000.0;
        to.add("wave: artifact", size, "kB", None);
        let last = shared.specs.seconds();
        to.add("wave: last cluster has its spec", last, "s", Some(15.0));
        let last = shared.ready.seconds();
        to.add("wave: all report Ready", last, "s", Some(60.0));
        let rest = cpu_at_rest * seconds * 1e6;
        let each = |micros: f64| micros / 1000.0 / clusters as f64;
        let own = each(micros as f64 - rest);
        to.add("wave: CPU per cluster", own, "ms", Some(2.0));
        let all = each(micros as f64);
        to.add("wave: CPU per cluster, with probes", all, "ms", None);
        let memory = self.hub.memory()? as f64 / 1e6;
        to.add("memory after the wave", memory, "MB", None);
        Ok(())
    }

    /// Processor time of reports of a changed state.
    async fn reports(&mut self, cpu_at_rest: f64) -> anyhow::Result<()> {
        let (begun, micros) = (Instant::now(), self.hub.micros()?);
        for round in 1..=REPORT_ROUNDS {
            eprintln!("  reports, round {round} of {REPORT_ROUNDS}");
            self.fleet.report_round(&mut self.hub).await?;
        }
        let micros = (self.hub.micros()? - micros) as f64;
        let rest = cpu_at_rest * begun.elapsed().as_secs_f64() * 1e6;
        let count = (REPORT_ROUNDS * self.args.clusters) as f64;
        let each = (micros - rest) / 1000.0 / count;
        self.figures.add("state report: CPU", each, "ms", Some(0.1));
        let all = micros / 1000.0 / count;
        self.figures
            .add("state report: CPU, with probes", all, "ms", None);
        Ok(())
    }

    /// Latencies of all pages of a bundle's deployments, in turn.
    async fn pages(&mut self) -> anyhow::Result<()> {
        eprintln!("  pages of deployments");
        let mut caller = self.hub.caller()?;
        let path = format!(
            "/v1/bundles/{}/deployments?limit={PAGE_ITEMS}",
            bundles::id(0)
        );
        let (mut paths, mut items, mut next) = (Vec::new(), 0, Some(path));
        while let Some(path) = next {
            let request = HubRequest::get(&path);
            let answer = caller.good(&request, &self.hub.token).await?;
            let list: Value = serde_json::from_slice(&answer.body)?;
            items += list
                .get("items")
                .and_then(Value::as_array)
                .map_or(0, Vec::len);
            paths.push(request);
            let link = answer.headers.get(header::LINK);
            next = link.map(|it| target_of(it.to_str()?)).transpose()?;
        }
        ensure!(items == self.args.clusters, "{items} deployments listed");
        let (paths, token) = (Arc::new(paths), self.hub.token.clone());
        let page = move |number: usize| {
            let request = paths.get(number % paths.len());
            let request = request.cloned();
            (
                request.unwrap_or_else(|| HubRequest::get("/")),
                token.clone(),
            )
        };
        let time = Duration::try_from_secs_f64(self.args.seconds)?;
        let pages = measure(&self.hub, 1, time, page).await?;
        let to = &mut self.figures;
        let what = format!("page of {PAGE_ITEMS} of {items} deployments");
        to.add(format!("{what}: p50"), pages.ms(0.5), "ms", None);
        to.add(format!("{what}: p99"), pages.ms(0.99), "ms", Some(20.0));
        to.add(format!("{what}: CPU"), pages.cpu_ms, "ms", None);
        Ok(())
    }
}

/// Target of a `Link` header with one link (RFC 8288).
fn target_of(link: &str) -> anyhow::Result<String> {
    let target = link.strip_prefix('<').and_then(|it| it.split_once('>'));
    Ok(target.context("not a link")?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_page_is_the_target_of_the_link() {
        let link = "</v1/bundles/b-a/deployments?limit=100&cursor=x>; rel=\"next\"";
        let target = target_of(link).unwrap();
        assert_eq!(target, "/v1/bundles/b-a/deployments?limit=100&cursor=x");
        assert!(target_of("rel=next").is_err());
    }
}
