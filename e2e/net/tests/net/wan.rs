//! Far sites: users' commands work over long and lossy links, and files arrive complete.

use std::fs;
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::UpgradeProtocol;
use fairlead_e2e_net::{LinkShape, Stage};

/// Size of the copied file in 4-byte words: 20 MiB.
const FILE_WORDS: u32 = 5 * 1024 * 1024;
/// Deadline of 20 MiB over the worst of these links on a busy machine.
const COPY_DEADLINE: Duration = Duration::from_secs(180);

async fn works_at(round_trip: u64, loss: f64) -> anyhow::Result<()> {
    let stage = Stage::set().await?;
    let site = stage.agent(|agent| agent).await?;
    let shape = LinkShape::round_trip(Duration::from_millis(round_trip)).loss(loss);
    stage.net.link(shape)?;
    stage.get_nodes().await?;
    let (kubectl, pod) = (stage.kubectl().await?, stage.pod().await?);
    for transport in [UpgradeProtocol::WebSocket, UpgradeProtocol::Spdy] {
        let exec = kubectl
            .clone()
            .transport(transport)
            .stdin("there and back\n");
        let echoed = exec.args(["exec", "-i", &pod, "--", "cat"]).run().await?;
        ensure!(echoed.success()? == "there and back\n", "{transport:?}");
    }
    // No repetitions, so that no two parts of it are equal.
    let bytes: Vec<u8> = (0..FILE_WORDS)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    let here = tempfile::tempdir()?;
    let (sent, received) = (here.path().join("sent"), here.path().join("received"));
    fs::write(&sent, &bytes)?;
    let there = format!("{pod}:over-{round_trip}-ms");
    for (from, to) in [
        (sent.display().to_string(), there.clone()),
        (there, received.display().to_string()),
    ] {
        let cp = kubectl
            .clone()
            .deadline(COPY_DEADLINE)
            .args(["cp", "--retries=0"]);
        let copied = cp.args([from, to]).run().await?.success();
        copied.with_context(|| stage.said(&site))?;
    }
    ensure!(fs::read(&received)? == bytes, "another file has come back");
    Ok(())
}

#[tokio::test]
async fn site_20_ms_away_works() -> anyhow::Result<()> {
    works_at(20, 0.0).await
}

#[tokio::test]
async fn site_60_ms_away_works() -> anyhow::Result<()> {
    works_at(60, 0.0).await
}

#[tokio::test]
async fn site_150_ms_away_works() -> anyhow::Result<()> {
    works_at(150, 0.0).await
}

/// With this loss, plain TCP reaches about 0.9 MB/s over 20 ms, and a seventh of it over 150 ms.
#[tokio::test]
async fn site_behind_a_link_that_loses_1_percent_works() -> anyhow::Result<()> {
    works_at(20, 0.01).await
}
