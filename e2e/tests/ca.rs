//! Rotation of the hub's CA under load: no session ends, agents that were away catch up.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{
    Cluster, Hub, Joining, Kubectl, RawClient, RawExchange, RunningKubectl, Site, eventually,
};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

const STEP_DEADLINE: Duration = Duration::from_secs(60);
const CLUSTER_COUNT: usize = 30;
const AWAY_COUNT: usize = 2;
const WATCH_COUNT: usize = 200;
const EXEC_COUNT: usize = 50;
/// Clusters with execs: each needs a context of its own.
const EXEC_CLUSTER_COUNT: usize = 10;

/// `fairlead ca status`.
async fn status(hub: &Hub) -> anyhow::Result<Value> {
    let shown = hub.cli(["ca", "status", "-o", "json"]).await?;
    Ok(serde_json::from_str(&shown.success()?)?)
}

async fn behind(hub: &Hub, count: usize) -> anyhow::Result<Vec<String>> {
    eventually(STEP_DEADLINE, "that few agents behind", async || {
        let status = status(hub).await.ok()?;
        let behind = status["behind"].as_array()?;
        let ids = behind.iter().filter_map(|it| it["cluster"].as_str());
        let ids: Vec<String> = ids.map(str::to_owned).collect();
        (ids.len() == count).then_some(ids)
    })
    .await
}

/// Logs in with the file of CAs that the hub keeps up to date.
async fn trust_all_authorities(hub: &Hub) -> anyhow::Result<()> {
    let status = status(hub).await?;
    let authorities = status["authorities"].as_array().context("authorities")?;
    let pem = authorities
        .iter()
        .filter_map(|it| it["certificate"].as_str());
    let pem: String = pem.collect();
    eventually(STEP_DEADLINE, "all CAs in the file", async || {
        let file = std::fs::read_to_string(&hub.ready().ca_file).ok()?;
        (file == pem).then_some(())
    })
    .await?;
    hub.log_in().await
}

/// Sessions that the hub has begun so far, and those that it has now.
async fn sessions(hub: &Hub) -> anyhow::Result<(f64, f64)> {
    let metrics = hub.metrics().await?;
    let ended = metrics.sum("fairlead_sessions_ended_total", &[]);
    Ok((ended, metrics.sum("fairlead_sessions", &[])))
}

struct Fleet {
    hub: Hub,
    cluster: Cluster,
    joinings: Vec<Joining>,
    sites: Vec<Site>,
}

impl Fleet {
    async fn start() -> anyhow::Result<Self> {
        let (cluster, hub) = tokio::try_join!(Cluster::start(), Hub::start())?;
        let (mut joinings, mut sites) = (Vec::new(), Vec::new());
        for number in 0..CLUSTER_COUNT {
            let joining = hub.create_cluster(&format!("site-{number:02}")).await?;
            sites.push(Site::begin(&hub, &cluster, &joining.join, &joining.id)?);
            joinings.push(joining);
        }
        for joining in &joinings {
            hub.wait_state(&joining.id, "Connected").await?;
        }
        Ok(Fleet {
            hub,
            cluster,
            joinings,
            sites,
        })
    }

    fn present(&self) -> &[Joining] {
        &self.joinings[AWAY_COUNT..]
    }

    async fn kubectl(&self, number: usize) -> anyhow::Result<Kubectl> {
        let name = format!("site-{:02}", AWAY_COUNT + number % EXEC_CLUSTER_COUNT);
        self.hub.kubectl(&self.cluster, &name).await
    }

    async fn watches(&self) -> anyhow::Result<Vec<RawExchange>> {
        let front: Arc<RawClient> = Arc::new(self.hub.front()?);
        let mut opening = JoinSet::new();
        for number in 0..WATCH_COUNT {
            let joining = &self.present()[number % self.present().len()];
            let request = format!(
                "GET /k8s/clusters/{}/api/v1/namespaces/default/configmaps?watch=1 HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
                joining.id,
                front.address(),
                self.hub.token()?
            );
            let front = front.clone();
            opening.spawn(async move { front.open(request.as_bytes()).await });
        }
        let mut watches = Vec::new();
        while let Some(watch) = opening.join_next().await {
            let watch = watch??;
            ensure!(watch.status == 200, "{}", watch.head);
            watches.push(watch);
        }
        Ok(watches)
    }

    async fn execs(&self) -> anyhow::Result<Vec<RunningKubectl>> {
        let pods = self.cluster.kubectl();
        let pods = pods.args(["get", "pods", "-l", "app=demo", "-o", "name"]);
        let pods = pods.run().await?.success()?;
        let pods: Vec<&str> = pods.lines().collect();
        let mut execs = Vec::new();
        for number in 0..EXEC_COUNT {
            let exec = self.kubectl(number).await?.deadline(5 * STEP_DEADLINE);
            let exec = exec.args(["exec", "-i", pods[number % pods.len()], "--", "cat"]);
            execs.push(exec.spawn()?);
        }
        Ok(execs)
    }
}

/// Each exec echoes a line, each watch sees a new object.
async fn all_work(
    fleet: &Fleet,
    step: &str,
    (watches, execs): (&mut [RawExchange], &mut [RunningKubectl]),
) -> anyhow::Result<()> {
    for (number, exec) in execs.iter_mut().enumerate() {
        let line = format!("{step}-{number}");
        exec.write(format!("{line}\n").as_bytes()).await?;
        ensure!(exec.next_line().await? == Some(line), "{step} {number}");
    }
    let create = ["create", "configmap", step];
    let create = fleet.cluster.kubectl().args(create).run();
    create.await?.success()?;
    for watch in watches {
        watch.wait_for(step).await?;
    }
    Ok(())
}

#[tokio::test]
async fn rotation_ends_no_session_and_waits_for_agents_that_are_away() -> anyhow::Result<()> {
    let mut fleet = Fleet::start().await?;
    for site in &mut fleet.sites[..AWAY_COUNT] {
        site.process.term()?;
        site.process.wait(STEP_DEADLINE).await?;
    }
    let away: Vec<String> = fleet.joinings[..AWAY_COUNT]
        .iter()
        .map(|it| it.id.clone())
        .collect();
    for id in &away {
        fleet.hub.wait_state(id, "Lost").await?;
    }
    let mut watches = fleet.watches().await?;
    let mut execs = fleet.execs().await?;
    all_work(&fleet, "before", (&mut watches, &mut execs)).await?;
    let before = sessions(&fleet.hub).await?;

    let since = Instant::now();
    fleet.hub.cli(["ca", "rotate", "--yes"]).await?.success()?;
    let mut listed = behind(&fleet.hub, AWAY_COUNT).await?;
    listed.sort();
    let mut expected = away.clone();
    expected.sort();
    ensure!(listed == expected, "{listed:?} for {expected:?}");
    let caught_up = since.elapsed();
    let refused = fleet.hub.cli(["ca", "retire", "--yes"]).await?;
    ensure!(refused.stderr.ends_with("code:  FL-4125\n"), "{refused:?}");
    ensure!(
        away.iter().all(|id| refused.stderr.contains(id)),
        "{refused:?}"
    );
    let again = fleet.hub.cli(["ca", "rotate", "--yes"]).await?;
    ensure!(again.stderr.ends_with("code:  FL-4123\n"), "{again:?}");
    all_work(&fleet, "rotating", (&mut watches, &mut execs)).await?;
    ensure!(
        sessions(&fleet.hub).await? == before,
        "a session was cut by the rotation"
    );

    for site in &mut fleet.sites[..AWAY_COUNT] {
        site.restart()?;
    }
    behind(&fleet.hub, 0).await?;
    trust_all_authorities(&fleet.hub).await?;
    fleet.hub.cli(["ca", "retire", "--yes"]).await?.success()?;
    all_work(&fleet, "retired", (&mut watches, &mut execs)).await?;
    let (ended, open) = sessions(&fleet.hub).await?;
    let expected = (before.0, before.1 + AWAY_COUNT as f64);
    ensure!(
        (ended, open) == expected,
        "a session was cut by the retirement: {ended} {open}"
    );
    eprintln!(
        "{} agents had the new CA {caught_up:?} after the rotation; {EXEC_COUNT} execs and {WATCH_COUNT} watches ran on",
        CLUSTER_COUNT - AWAY_COUNT
    );
    for mut exec in execs {
        exec.close_stdin();
        ensure!(exec.wait().await?.success());
    }
    drop(watches);

    // All identities are of the new CA, and all agents trust it.
    fleet.hub.process.term()?;
    fleet.hub.process.wait(STEP_DEADLINE).await?;
    fleet.hub.restart().await?;
    for joining in &fleet.joinings {
        fleet.hub.wait_state(&joining.id, "Connected").await?;
    }
    let version = fleet.kubectl(0).await?.args(["version"]).run().await?;
    version.success()?;
    Ok(())
}

#[tokio::test]
async fn forced_retirement_cuts_off_only_agents_that_are_behind() -> anyhow::Result<()> {
    let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), Hub::start())?;
    let (kept, lost) = (
        hub.create_cluster("kept").await?,
        hub.create_cluster("lost").await?,
    );
    let _kept = Site::start(&hub, &cluster, &kept).await?;
    let mut site = Site::start(&hub, &cluster, &lost).await?;
    site.process.term()?;
    site.process.wait(STEP_DEADLINE).await?;
    hub.cli(["ca", "rotate", "--yes"]).await?.success()?;
    ensure!(behind(&hub, 1).await? == std::slice::from_ref(&lost.id));
    trust_all_authorities(&hub).await?;
    let retire = ["ca", "retire", "--force", "--yes", "-o", "json"];
    let retired = hub.cli(retire).await?.success()?;
    let retired: Value = serde_json::from_str(&retired)?;
    ensure!(retired["retired"][0]["leftBehind"] == 1, "{retired}");
    site.restart()?;
    site.process.wait_for_log("FL-3105", STEP_DEADLINE).await?;
    hub.wait_state("kept", "Connected").await?;

    // A new join string brings it back.
    let renew = ["cluster", "token", "renew", "lost", "--yes", "-o", "json"];
    let joining: Value = serde_json::from_str(&hub.cli(renew).await?.success()?)?;
    let join = joining["join"].as_str().context("join")?;
    site.process.term()?;
    site.process.wait(STEP_DEADLINE).await?;
    let _back = Site::begin(&hub, &cluster, join, &lost.id)?;
    hub.wait_state("lost", "Connected").await
}
