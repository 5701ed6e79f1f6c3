//! Upgrades of agents: 30 clusters in waves with the real Deployment controller, then a version that never starts.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod world;

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::sync::watch;

use world::{BROKEN_TAG, FleetWorld};

const CLUSTER_COUNT: usize = 30;
/// Upgrades of all waves, on two busy cores.
const UPGRADE_DEADLINE: Duration = Duration::from_secs(600);
const VERSION: &str = env!("CARGO_PKG_VERSION");

#[tokio::test]
async fn fleet_is_upgraded_in_waves_and_a_broken_version_returns() -> anyhow::Result<()> {
    let world = FleetWorld::start(CLUSTER_COUNT).await?;
    tokio::select! {
        failed = world.kubelet() => failed,
        done = scenario(&world) => done,
    }
}

async fn scenario(world: &FleetWorld) -> anyhow::Result<()> {
    world.until_installed().await?;
    let (stop, stopped) = watch::channel(false);
    let (requests, upgraded) = tokio::join!(requests(world, stopped), async {
        let upgraded = upgrade(world, "fairlead:next", &[]).await;
        let _ = stop.send(true);
        upgraded
    });
    let (code, good) = upgraded?;
    ensure!(code == Some(0), "{good}");
    ensure!(requests? > 0, "no request during the upgrade");
    check_waves(&good)?;
    let images = world.images().await?;
    ensure!(
        images.values().all(|it| it == "fairlead:next"),
        "{images:?}"
    );
    let fleet = world.hub.cli(["version", "--fleet", "-o", "json"]).await?;
    let fleet: Value = serde_json::from_str(&fleet.success()?)?;
    ensure!(
        fleet["agents"][0]["version"] == VERSION && fleet["disconnected"] == Value::Array(vec![]),
        "{fleet}"
    );

    let before = world.deployments().await?;
    let broken = format!("fairlead{BROKEN_TAG}");
    let (code, bad) = upgrade(world, &broken, &["--ready-timeout", "20s"]).await?;
    ensure!(code == Some(1), "{bad}");
    ensure!(bad["state"] == "Stopped", "{bad}");
    let (canary, others) = clusters(&bad)?.split_first().context("no cluster")?;
    ensure!(canary["state"] == "RolledBack", "{canary}");
    let cause = canary["cause"].as_str().context("no cause")?;
    ensure!(
        cause.starts_with("FL-1521") && cause.contains("ImagePullBackOff: no such image"),
        "{cause}"
    );
    ensure!(
        others.iter().all(|it| it["state"] == "Waiting"),
        "{others:?}"
    );
    let canary = world.namespace_of(canary["cluster"].as_str().context("no id")?)?;
    let after = world.deployments().await?;
    for (namespace, deployment) in &after {
        let generation = |it: &Value| it["metadata"]["generation"].as_u64();
        let before = generation(&before[namespace]);
        // The canary has changed twice: to the broken image and back.
        let changes = if namespace == canary { 2 } else { 0 };
        ensure!(
            generation(deployment) == before.map(|it| it + changes),
            "{namespace}: {deployment}"
        );
    }
    let images = world.images().await?;
    ensure!(
        images.values().all(|it| it == "fairlead:next"),
        "{images:?}"
    );
    // The canary has served all the time, with the pods of the former image.
    world.hub.wait_state(canary, "Connected").await
}

/// Upgrades all clusters to an image; returns the exit code, and the upgrade at its end.
async fn upgrade(
    world: &FleetWorld,
    image: &str,
    more: &[&str],
) -> anyhow::Result<(Option<i32>, Value)> {
    let words = [
        "agent",
        "upgrade",
        "--all",
        "--version",
        VERSION,
        "--image",
        image,
    ];
    let words = [&words[..], &["--wait", "-o", "json"], more].concat();
    let output = world.hub.cli_within(UPGRADE_DEADLINE, words).await?;
    eprintln!("{}", output.stderr);
    let upgrade = serde_json::from_slice(&output.stdout).with_context(|| format!("{output:?}"))?;
    Ok((output.status.code(), upgrade))
}

/// Sends requests through the hub to the first cluster until a stop; returns their number. Each must succeed.
async fn requests(world: &FleetWorld, stop: watch::Receiver<bool>) -> anyhow::Result<u32> {
    let kubectl = world.hub.kubectl(&world.cluster, "site-00").await?;
    let mut count = 0;
    while !*stop.borrow() {
        let get = kubectl.clone().args(["get", "namespaces", "-o", "name"]);
        get.run().await?.success()?;
        count += 1;
    }
    Ok(count)
}

fn clusters(upgrade: &Value) -> anyhow::Result<&Vec<Value>> {
    upgrade["clusters"].as_array().context("no clusters")
}

/// Each cluster is done, and no wave begins before the end of the one before.
fn check_waves(upgrade: &Value) -> anyhow::Result<()> {
    let clusters = clusters(upgrade)?;
    ensure!(clusters.len() == CLUSTER_COUNT, "{upgrade}");
    ensure!(clusters.iter().all(|it| it["state"] == "Done"), "{upgrade}");
    let time = |it: &Value, field: &str| -> anyhow::Result<OffsetDateTime> {
        let text = it[field].as_str().context("no time")?;
        Ok(OffsetDateTime::parse(text, &Rfc3339)?)
    };
    let mut sizes = Vec::new();
    let mut last_end = None;
    for wave in 1..=5 {
        let members: Vec<&Value> = clusters.iter().filter(|it| it["wave"] == wave).collect();
        let starts: Vec<_> = members
            .iter()
            .map(|it| time(it, "started"))
            .collect::<Result<_, _>>()?;
        let ends: Vec<_> = members
            .iter()
            .map(|it| time(it, "finished"))
            .collect::<Result<_, _>>()?;
        ensure!(
            starts.iter().min().copied() >= last_end,
            "wave {wave} began too early: {upgrade}"
        );
        last_end = ends.into_iter().max();
        sizes.push(members.len());
    }
    ensure!(sizes == [1, 2, 5, 7, 15], "{sizes:?}");
    Ok(())
}
