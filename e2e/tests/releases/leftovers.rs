//! Objects that only a killed upgrade had. Helm compares new content with the last deployed revision alone.

use anyhow::ensure;
use fairlead_delivery_agent::engine::Executor;
use fairlead_e2e::eventually;
use rustix::process::Signal;
use serde_json::json;

use super::{
    charts::{EXTRA, shop_with},
    kills::{key, pid},
    world::{Deployment, STEP_DEADLINE, World, signal},
};

/// Both objects of killed upgrades go: with newer content, and with the content from before the kill.
pub(crate) async fn of_a_killed_upgrade(world: &World) -> anyhow::Result<()> {
    let values = json!({"name": "left", "text": "one"});
    let mut left = world.deployment_of("b-left", shop_with(&[EXTRA]), values)?;
    world.synced(&mut left).await?;
    killed_with(world, &mut left, "left-1").await?;
    left.set_value("extra", "left-2");
    synced_without(world, &mut left, "left-1").await?;
    killed_with(world, &mut left, "left-3").await?;
    left.set_value("extra", "left-2");
    synced_without(world, &mut left, "left-3").await?;
    let states = world.revisions("left").await?;
    let expected = [
        (1, "superseded"),
        (2, "failed"),
        (3, "superseded"),
        (4, "failed"),
        (5, "deployed"),
    ];
    ensure!(states == expected, "{states:?}");
    // The kept object proves that the release has its own.
    world
        .kubectl(&["get", "configmap", "left", "left-2"])
        .await?;
    world.remove(&mut left).await
}

/// Kills an upgrade after it has created this object.
async fn killed_with(world: &World, left: &mut Deployment, extra: &str) -> anyhow::Result<()> {
    left.set_value("extra", extra);
    left.set_value("hook", "hangs late");
    let attempt = world.begin(left, 1).await?;
    let kill = async {
        eventually(STEP_DEADLINE, "hook after the objects", async || {
            let hook = world.kubectl(&["get", "job", "left-hook", "-o", "name"]);
            hook.await.ok()
        })
        .await?;
        signal(pid(world, &key(&attempt)).await?, Signal::KILL)
    };
    let (result, killed) = tokio::join!(world.executor.sync(&attempt.context), kill);
    killed?;
    world.finish(left, attempt, false).await?;
    ensure!(result.is_err(), "Helm was killed");
    world.kubectl(&["get", "configmap", extra]).await?;
    world
        .kubectl(&["delete", "job", "left-hook", "--wait"])
        .await?;
    left.set_value("hook", "");
    Ok(())
}

async fn synced_without(world: &World, left: &mut Deployment, extra: &str) -> anyhow::Result<()> {
    let (result, log) = world.sync(left).await?;
    ensure!(result.is_ok(), "{result:?}: {log}");
    let found = world.kubectl(&["get", "configmap", extra]).await;
    ensure!(found.is_err(), "{extra} is still there; the log: {log}");
    ensure!(
        log.contains(&format!("deleted ConfigMap shop/{extra}")),
        "{log}"
    );
    Ok(())
}
