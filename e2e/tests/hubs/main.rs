//! Two hubs on one PostgreSQL, and a cluster whose agent knows one of them or both.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod doctor;
mod forwarded;
mod leader;
mod learned;
mod restarted;
mod revoked;
mod rotated;
mod tcp;

use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, Joining, PostgresServer, Site, eventually};
use serde_json::Value;

/// Flags of an agent that keeps to the hubs it is given, with one link.
const ONE_HUB: [&str; 4] = ["--links", "1", "--learn-hubs", "off"];
const STEP_DEADLINE: Duration = Duration::from_secs(30);

/// Sends a GET with a token of the other hub. Both hubs share their tokens.
async fn get(hub: &Hub, token: &str, path: &str) -> anyhow::Result<(u16, Value)> {
    let asked = format!(
        "GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    let answer = hub.front()?.send(asked).await?;
    Ok((answer.status, serde_json::from_str(&answer.text())?))
}

/// Starts an agent with one session, at this hub, and waits until it is connected.
async fn site_at(hub: &Hub, cluster: &Cluster, joining: &Joining) -> anyhow::Result<Site> {
    let site = Site::begin_with(hub, cluster, &joining.join, &joining.id, &ONE_HUB)?;
    hub.wait_state(&joining.id, "Connected").await?;
    Ok(site)
}

/// Two hubs and their shared parts.
struct HubPair {
    one: Hub,
    two: Hub,
    /// Token of an admin, valid at both.
    token: String,
    /// Flags of a further hub on the same database.
    flags: Vec<String>,
    /// URL of the database.
    store_url: String,
    _store: PostgresServer,
    _keys: tempfile::TempDir,
}

impl HubPair {
    /// Starts both with additional flags.
    async fn start(more: &[&str]) -> anyhow::Result<Self> {
        HubPair::start_with(more, &[]).await
    }

    /// Starts both, the second one with flags of its own.
    async fn start_with(more: &[&str], of_second: &[&str]) -> anyhow::Result<Self> {
        let store = PostgresServer::start()?;
        let keys = tempfile::tempdir()?;
        let key = keys.path().join("store.key");
        std::fs::write(&key, "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n")?;
        let (url, key) = (store.url(), key.display().to_string());
        let flags = [&["--store", &url, "--store-key-file", &key], more].concat();
        let one = Hub::start_server(&flags).await?;
        let two = Hub::start_server(&[&flags, of_second].concat()).await?;
        one.log_in().await?;
        Ok(Self {
            token: one.token()?,
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
            store_url: url.clone(),
            one,
            two,
            _store: store,
            _keys: keys,
        })
    }
}

#[tokio::test]
async fn each_hub_tells_how_it_stands_with_a_cluster_of_the_other_one_and_when_that_is_killed()
-> anyhow::Result<()> {
    let (cluster, pair) = tokio::try_join!(Cluster::start_lite(), HubPair::start(&[]))?;
    let HubPair {
        mut one,
        two,
        token,
        ..
    } = pair;
    let joining = one.create_cluster("demo").await?;
    let path = format!("/clusters/{}", joining.id);
    let status = async || Some(get(&two, &token, &path).await.ok()?.1["status"].take());
    eventually(STEP_DEADLINE, "the cluster on the other hub", async || {
        status().await.filter(|it| it["state"] == "Never")
    })
    .await?;
    let _site = site_at(&one, &cluster, &joining).await?;
    let seen = eventually(STEP_DEADLINE, "connected", async || {
        status().await.filter(|it| it["state"] == "Connected")
    })
    .await?;
    ensure!(seen["hub"] == one.ready().url.as_str(), "{seen}");
    let ours = get(&one, &token, &path).await?.1;
    ensure!(ours["status"]["since"] == seen["since"], "{ours} {seen}");

    let version = format!("/k8s/clusters/{}/version", joining.id);
    for hub in [&one, &two] {
        let (code, answer) = get(hub, &token, &version).await?;
        ensure!(code == 200, "{answer}");
    }

    one.process.kill_9()?;
    let lost = eventually(STEP_DEADLINE, "lost with its hub", async || {
        status().await.filter(|it| it["state"] == "Lost")
    })
    .await?;
    ensure!(
        lost["lastError"]["code"] == "FL-1402" && lost["hub"].is_null(),
        "{lost}"
    );
    Ok(())
}

/// Creates a namespace directly, not through the hubs.
async fn make(cluster: &Cluster, name: &str) -> anyhow::Result<()> {
    let made = cluster.kubectl().args(["create", "namespace", name]);
    made.run().await?.success().map(drop)
}

#[tokio::test]
async fn drained_hub_hands_its_agent_over_and_keeps_streams_until_the_timeout() -> anyhow::Result<()>
{
    let drain = ["--drain-timeout", "15s"];
    let (cluster, mut pair) = tokio::try_join!(Cluster::start_lite(), HubPair::start(&drain))?;
    let joining = pair.one.create_cluster("demo").await?;
    let known = [&pair.one, &pair.two];
    let mut site = Site::begin_at_with(&known, &cluster, &joining, &ONE_HUB)?;
    pair.one.wait_state(&joining.id, "Connected").await?;
    let watched = pair.one.kubectl(&cluster, "demo").await?;
    let mut watch = watched
        .args(["get", "namespaces", "-w", "-o", "name"])
        .spawn()?;
    // The first may be in the list that precedes the watch; the second was created after it.
    for name in ["before", "begun"] {
        make(&cluster, name).await?;
        while watch.next_line().await?.context("it has ended")? != format!("namespace/{name}") {}
    }

    pair.one.process.term()?;
    site.process
        .wait_for_log("moved to another hub", STEP_DEADLINE)
        .await?;
    let (two, token) = (&pair.two, &pair.token);
    let version = format!("/k8s/clusters/{}/version", joining.id);
    eventually(STEP_DEADLINE, "requests by the other hub", async || {
        let (code, _) = get(two, token, &version).await.ok()?;
        (code == 200).then_some(())
    })
    .await?;
    // The watch at the first hub continues.
    make(&cluster, "meanwhile").await?;
    while watch.next_line().await?.context("it has ended")? != "namespace/meanwhile" {}
    ensure!(pair.one.process.wait(STEP_DEADLINE).await?.success());
    while watch.next_line().await?.is_some() {}
    let log = pair.one.process.log()?;
    ensure!(log.contains("canceling unfinished tasks"), "{log}");
    ensure!(get(two, token, &version).await?.0 == 200);
    Ok(())
}
