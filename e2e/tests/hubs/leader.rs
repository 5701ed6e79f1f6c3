//! Work that one of several hubs does: it goes on at another hub when the leading one is killed.

use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Site, eventually};
use serde_json::Value;
use tokio::time::Instant;

use crate::{HubPair, STEP_DEADLINE, get};

/// Deadline of a takeover on a busy machine; it takes some two seconds, and 10 by design at most.
const TAKEOVER_DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn work_of_a_killed_leader_goes_on_at_the_other_hub() -> anyhow::Result<()> {
    let (cluster, mut pair) = tokio::try_join!(Cluster::start_lite(), HubPair::start(&[]))?;
    let leads = "leadership acquired";
    pair.one.process.wait_for_log(leads, STEP_DEADLINE).await?;
    let joining = pair.one.create_cluster("demo").await?;
    let _site = Site::start(&pair.one, &cluster, &joining).await?;
    pair.two.log_in_with(&pair.token).await?;
    // The agent has learned the second hub, so it keeps a session.
    let sessions = format!("/v1/clusters/{}/sessions", joining.id);
    eventually(STEP_DEADLINE, "sessions at both hubs", async || {
        let (_, listed) = get(&pair.two, &pair.token, &sessions).await.ok()?;
        (listed["items"].as_array()?.len() == 2).then_some(())
    })
    .await?;
    let log = pair.two.process.log()?;
    ensure!(!log.contains(leads), "both hubs lead: {log}");

    pair.one.process.kill_9()?;
    let since = Instant::now();
    let upgrade = ["agent", "upgrade", "--all", "--version", "0.0.9", "-o"];
    let started = pair.two.cli(upgrade.into_iter().chain(["json"])).await?;
    let started: Value = serde_json::from_str(&started.success()?)?;
    let id = started["id"].as_str().context("id of the upgrade")?;
    let path = format!("/v1/agent-upgrades/{id}");
    // The leading hub orders the upgrade, and takes over the refusal of an agent outside of a pod.
    let done = eventually(TAKEOVER_DEADLINE, "result of the upgrade", async || {
        let (_, upgrade) = get(&pair.two, &pair.token, &path).await.ok()?;
        (upgrade["state"] != "Running").then_some(upgrade)
    });
    let done = done.await?;
    eprintln!("the work went on {:?} after the kill", since.elapsed());
    ensure!(done["clusters"][0]["state"] == "Refused", "{done}");
    pair.two.process.wait_for_log(leads, STEP_DEADLINE).await
}

#[tokio::test]
async fn draining_leader_hands_the_work_over_while_its_streams_run() -> anyhow::Result<()> {
    let (cluster, mut pair) = tokio::try_join!(
        Cluster::start_lite(),
        HubPair::start(&["--drain-timeout", "60s"])
    )?;
    let leads = "leadership acquired";
    pair.one.process.wait_for_log(leads, STEP_DEADLINE).await?;
    let joining = pair.one.create_cluster("demo").await?;
    let _site = Site::start(&pair.one, &cluster, &joining).await?;
    let kubectl = pair.one.kubectl(&cluster, "demo").await?;
    let mut watch = kubectl
        .args(["get", "namespaces", "-w", "-o", "name"])
        .spawn()?;
    watch.next_line().await?.context("the list")?;
    pair.one.process.term()?;
    pair.two
        .process
        .wait_for_log(leads, TAKEOVER_DEADLINE)
        .await?;
    pair.one
        .process
        .wait_for_log("leadership lost", STEP_DEADLINE)
        .await
}
