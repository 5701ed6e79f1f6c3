//! A Git repository over SSH: deploy key, known host key, and another key in its place.

use anyhow::ensure;
use fairlead_e2e::ssh::SshServer;

use crate::{git::WorkingCopy, world::World};

/// Name of the deploy key in the folder of credentials.
const CREDENTIALS: &str = "platform-key";
const SOURCE: &str = "platform";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn push_over_ssh_reaches_clusters_and_another_host_key_removes_nothing() -> anyhow::Result<()>
{
    let unpacked = match SshServer::build().await {
        Ok(unpacked) => unpacked,
        Err(reason) => {
            println!("SKIPPED: Git over SSH: {reason}");
            return Ok(());
        }
    };
    let home = tempfile::tempdir()?;
    let server = SshServer::start(&unpacked, &home.path().join("ssh")).await?;
    let keys = home.path().join("credentials/t-default");
    std::fs::create_dir_all(&keys)?;
    std::fs::write(keys.join(CREDENTIALS), server.deploy_key()?)?;
    let known_hosts = home.path().join("known_hosts");
    std::fs::write(&known_hosts, server.known_host())?;

    let folder = home.path().join("credentials").display().to_string();
    let world = World::start_with(2, &["--delivery-credentials", &folder]).await?;
    let repository = home.path().join("served/platform.git");
    let copy = WorkingCopy::of_new(home.path(), &repository).await?;
    copy.push("blue").await?;
    let (url, known_hosts) = (server.url(&repository), known_hosts.display().to_string());
    let add = [
        "source",
        "add",
        SOURCE,
        "--git",
        &url,
        "--ref",
        "main",
        "--path",
        "shop",
        "--tenant",
        "t-default",
        "--credentials",
        CREDENTIALS,
        "--host-keys",
        &known_hosts,
    ];
    world.run(&add).await?.success()?;
    everywhere(&world, "blue").await?;
    copy.push("red").await?;
    world.run(&["source", "sync", SOURCE]).await?.success()?;
    everywhere(&world, "red").await?;

    // Another machine in the place of the server, as far as the hub can tell.
    server.change_host_key().await?;
    copy.push("green").await?;
    world.run(&["source", "sync", SOURCE]).await?.success()?;
    let refused = world.until_source(SOURCE, |it| !it["reason"].is_null());
    let refused = refused.await?;
    let expected = "FL-6602: the Git server has another host key than the source names: git: Host key verification failed. \
                    Compare the key with the administrator of the server, then correct `git.hostKeys` of the source.";
    let reason = refused["reason"].as_str().unwrap_or_default();
    ensure!(reason.starts_with(expected), "{refused}; {}", server.log());
    for member in &world.members {
        ensure!(member.field("cm/web", ".data.color").await? == "red");
    }

    server.restore_host_key()?;
    world.run(&["source", "sync", SOURCE]).await?.success()?;
    everywhere(&world, "green").await?;
    let healed = world.until_source(SOURCE, |it| it["reason"].is_null());
    healed.await?;
    Ok(())
}

/// Waits until each cluster has this color.
async fn everywhere(world: &World, color: &str) -> anyhow::Result<()> {
    for member in &world.members {
        member.until_field("cm/web", ".data.color", color).await?;
    }
    Ok(())
}
