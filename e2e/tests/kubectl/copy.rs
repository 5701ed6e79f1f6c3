//! `kubectl cp` in both directions, with files larger than all buffers on the path.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use fairlead_e2e::UpgradeProtocol;
use tokio::process::Command;

use crate::world::{CallRoute, KubectlWorld};

const FILE_BYTES: u64 = 100 * 1024 * 1024;
const COPY_DEADLINE: Duration = Duration::from_secs(90);

async fn checksum(file: &Path) -> anyhow::Result<String> {
    let output = Command::new("sha256sum").arg(file).output().await?;
    anyhow::ensure!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout)?;
    Ok(text.chars().take_while(|c| *c != ' ').collect())
}

async fn there_and_back(way: CallRoute, over: UpgradeProtocol) -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    let pod = world.pod(2);
    let here = tempfile::tempdir_in(world.cluster.dir())?;
    let sent = here.path().join("sent");
    let received = here.path().join("received");
    // No repetitions, so that no two chunks are equal.
    io::copy(
        &mut File::open("/dev/urandom")?.take(FILE_BYTES),
        &mut File::create(&sent)?,
    )?;
    let sum = checksum(&sent).await?;
    let name = format!("copy-{}-{over:?}", way.tag());
    let there = format!("{pod}:{name}");
    let call = async |args: &[&str]| {
        let kubectl = world.kubectl(way).transport(over).deadline(COPY_DEADLINE);
        kubectl.args(args).run().await?.success()
    };
    call(&["cp", "--retries=0", &sent.display().to_string(), &there]).await?;
    fs::remove_file(&sent)?;
    let text = call(&["exec", pod, "--", "sha256sum", &name]).await?;
    assert!(text.starts_with(&sum), "{sum} became {text}");
    call(&["cp", "--retries=0", &there, &received.display().to_string()]).await?;
    assert_eq!(checksum(&received).await?, sum);
    call(&["exec", pod, "--", "rm", &name]).await?;
    Ok(())
}

#[tokio::test]
async fn large_file_goes_there_and_back_directly_over_websocket() -> anyhow::Result<()> {
    there_and_back(CallRoute::Direct, UpgradeProtocol::WebSocket).await
}

#[tokio::test]
async fn large_file_goes_there_and_back_directly_over_spdy() -> anyhow::Result<()> {
    there_and_back(CallRoute::Direct, UpgradeProtocol::Spdy).await
}

#[tokio::test]
async fn large_file_goes_there_and_back_by_path_over_websocket() -> anyhow::Result<()> {
    there_and_back(CallRoute::Path, UpgradeProtocol::WebSocket).await
}

#[tokio::test]
async fn large_file_goes_there_and_back_by_path_over_spdy() -> anyhow::Result<()> {
    there_and_back(CallRoute::Path, UpgradeProtocol::Spdy).await
}

#[tokio::test]
async fn large_file_goes_there_and_back_by_name_over_websocket() -> anyhow::Result<()> {
    there_and_back(CallRoute::Name, UpgradeProtocol::WebSocket).await
}

#[tokio::test]
async fn large_file_goes_there_and_back_by_name_over_spdy() -> anyhow::Result<()> {
    there_and_back(CallRoute::Name, UpgradeProtocol::Spdy).await
}
