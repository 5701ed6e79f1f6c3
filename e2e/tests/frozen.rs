//! Agents that freeze during users' commands: their links stay, and nothing comes back over them.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use fairlead_e2e::{
    Cluster, Hub, Kubectl, Output, Pod, RawAnswer, RawClient, Site, admin::get_plain, eventually,
};
use rustix::process::Signal;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

const STEP_DEADLINE: Duration = Duration::from_secs(30);
/// Deadline of the answer to a read, and the time of kubectl's own process on a busy machine.
const ANSWER_DEADLINE: Duration = Duration::from_secs(20 + 10);
/// Starts of the reads in seconds after the freeze. The agent's link is given up after 10.5 s.
const STARTS_SECONDS: [u64; 8] = [0, 3, 6, 8, 9, 10, 12, 18];

/// Reads at once, more than the nearer agent gets alone, even if the other one seems far on a busy machine.
const EARLY_COUNT: usize = 32;

/// One kubectl, its start, and the time that it took.
struct Call {
    start: u64,
    output: Output,
    took: Duration,
}

async fn call(kubectl: Kubectl, words: &[&str], start: u64) -> anyhow::Result<Call> {
    sleep(Duration::from_secs(start)).await;
    let began = Instant::now();
    let kubectl = kubectl.deadline(2 * STEP_DEADLINE);
    let output = kubectl.args(words.iter().copied()).run().await?;
    let took = began.elapsed();
    Ok(Call {
        start,
        output,
        took,
    })
}

/// Its own timeout is longer than the deadline of the answer.
const GET: [&str; 5] = ["get", "nodes", "-o", "name", "--request-timeout=60s"];

async fn early_read(front: Arc<RawClient>, get: String) -> anyhow::Result<(RawAnswer, Duration)> {
    let began = Instant::now();
    let answer = front.send(&get).await?;
    Ok((answer, began.elapsed()))
}

/// Reads that start one after the other.
async fn reads(kubectl: &Kubectl) -> anyhow::Result<Vec<Call>> {
    let mut running = JoinSet::new();
    for start in STARTS_SECONDS {
        running.spawn(call(kubectl.clone(), &GET, start));
    }
    let mut calls = Vec::new();
    while let Some(call) = running.join_next().await {
        let call = call??;
        ensure!(
            call.took <= ANSWER_DEADLINE,
            "{} s: {:?}",
            call.start,
            call.took
        );
        calls.push(call);
    }
    Ok(calls)
}

/// Fails within the deadline, also just before the link is given up, and reports the truth about a write.
#[tokio::test]
async fn commands_to_a_frozen_agent_fail_within_twenty_seconds() -> anyhow::Result<()> {
    let (cluster, hub) = tokio::try_join!(Cluster::shared(), Hub::start())?;
    let joining = hub.create_cluster("frozen").await?;
    let mut site = Site::start(&hub, cluster, &joining).await?;
    let kubectl = hub.kubectl(cluster, "frozen").await?;
    call(kubectl.clone(), &GET, 0).await?.output.success()?;

    site.process.signal(Signal::STOP)?;
    let create = ["create", "configmap", "written-to-a-frozen-agent"];
    let writer = kubectl.clone();
    let written = tokio::spawn(async move { call(writer, &create, 0).await });
    for Call {
        start,
        output,
        took,
    } in reads(&kubectl).await?
    {
        ensure!(!output.status.success(), "{start} s: {:?}", output.text());
        ensure!(
            output.stderr.contains("FL-1402"),
            "{start} s: {}",
            output.stderr
        );
        println!("read {start} s after the freeze: {took:?}");
    }
    let Call { output, took, .. } = written.await??;
    ensure!(took <= ANSWER_DEADLINE, "{took:?}: {}", output.text());
    let truth = output.stderr.contains("may have been carried out");
    ensure!(
        output.stderr.contains("FL-1405") && truth,
        "{}",
        output.stderr
    );
    site.process.signal(Signal::CONT)?;
    hub.wait_state(&joining.id, "Connected").await?;
    call(kubectl, &GET, 0).await?.output.success()?;
    Ok(())
}

/// Each read that was sent to the frozen agent moves to the other one.
#[tokio::test]
async fn reads_of_a_frozen_agent_are_answered_by_another_one() -> anyhow::Result<()> {
    let (cluster, hub) = tokio::try_join!(Cluster::start(), Hub::start())?;
    let joining = hub.create_cluster("half").await?;
    let url = joining.install_url.trim_start_matches("http://");
    let (address, path) = url.split_once('/').unwrap_or((url, ""));
    let manifest = get_plain(address.parse()?, &format!("/{path}")).await?;
    let pod = Pod::install(&cluster, &manifest, "fairlead", "fairlead-agent").await?;
    let mut one = Site::begin_in(&hub, &pod, &joining.join, "one")?;
    let _two = Site::begin_in(&hub, &pod, &joining.join, "two")?;
    hub.wait_state(&joining.id, "Connected").await?;
    eventually(STEP_DEADLINE, "two sessions", async || {
        let metrics = hub.metrics().await.ok()?;
        (metrics.sum("fairlead_sessions", &[]) == 2.0).then_some(())
    })
    .await?;
    let kubectl = hub.kubectl(&cluster, "half").await?;
    call(kubectl.clone(), &GET, 0).await?.output.success()?;

    one.process.signal(Signal::STOP)?;
    // Some of these go to the frozen agent. Without processes of their own they start at once, while the
    // hub still trusts both agents.
    let front = Arc::new(hub.front()?);
    let get = format!(
        "GET /k8s/clusters/{}/api/v1/nodes HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        joining.id,
        front.address(),
        hub.token()?
    );
    let mut early = JoinSet::new();
    for _ in 0..EARLY_COUNT {
        early.spawn(early_read(front.clone(), get.clone()));
    }
    let mut slowest = Duration::ZERO;
    for Call { output, took, .. } in reads(&kubectl).await? {
        ensure!(output.success()?.contains("node/"));
        slowest = slowest.max(took);
    }
    while let Some(early) = early.join_next().await {
        let (answer, took) = early??;
        ensure!(answer.status == 200, "{}", answer.text());
        ensure!(took <= ANSWER_DEADLINE, "{took:?}");
        slowest = slowest.max(took);
    }
    let moved = hub.metrics().await?.sum("fairlead_reads_moved_total", &[]);
    ensure!(moved > 0.0, "none was sent to the frozen agent");
    println!("{moved} reads moved, the slowest took {slowest:?}");
    one.process.signal(Signal::CONT)?;
    Ok(())
}
