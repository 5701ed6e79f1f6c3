//! Running calls of kubectl that lose their access: each ends within seconds, with the reason, and fails.

use anyhow::{Context, ensure};
use fairlead_e2e::{CALL_KINDS, END_DEADLINE, RunningCalls, UpgradeProtocol};
use tokio::time::{Instant, timeout};

use crate::world::{CallRoute, KubectlWorld};
use crate::{BOTH, STEP_DEADLINE};

async fn create_token(world: &KubectlWorld, name: &str) -> anyhow::Result<String> {
    let create = ["token", "create", name, "--role", "admin", "-o"];
    let create = create.into_iter().chain(["jsonpath={.token}"]);
    let token = world.hub.cli(create).await?.success()?;
    Ok(format!("--token={}", token.trim()))
}

/// Starts four calls with the token of this caller. Other tests have running requests of their own.
async fn started(
    world: &KubectlWorld,
    caller: &str,
    token: &str,
    over: UpgradeProtocol,
) -> anyhow::Result<RunningCalls> {
    let kubectl = || world.kubectl(CallRoute::Path).args([token]).transport(over);
    let calls = RunningCalls::start(format!("{over:?}"), kubectl, world.pods_of_calls()).await?;
    let listed = ["sessions", "list", "--caller", caller, "-o", "json"];
    fairlead_e2e::eventually(STEP_DEADLINE, "four requests in the list", async || {
        let listed = world.hub.cli(listed).await.ok()?.success().ok()?;
        let has = |kind: &&str| listed.contains(&format!("\"kind\": \"{kind}\""));
        CALL_KINDS.iter().all(has).then_some(())
    })
    .await?;
    Ok(calls)
}

#[tokio::test]
async fn deleted_token_ends_running_calls_with_the_reason() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    for over in BOTH {
        let name = format!("ended-{over:?}").to_lowercase();
        let token = create_token(world, &name).await?;
        let calls = started(world, &name, &token, over).await?;
        let since = Instant::now();
        let deleted = world.hub.cli(["token", "delete", &name, "--yes"]).await?;
        deleted.success()?;
        calls.all_end(since, "FL-1205").await?;
    }
    Ok(())
}

#[tokio::test]
async fn lock_of_a_user_ends_running_calls_and_refuses_new_ones() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    let over = UpgradeProtocol::WebSocket;
    let token = create_token(world, "locked").await?;
    let calls = started(world, "locked", &token, over).await?;
    let since = Instant::now();
    let lock = ["lock", "user", "locked", "--reason", "laptop stolen"];
    world.hub.cli(lock).await?.success()?;
    calls.all_end(since, "FL-1203").await?;
    let get = || {
        world
            .kubectl(CallRoute::Path)
            .args([token.as_str(), "get", "nodes"])
    };
    let refused = get().run().await?;
    ensure!(
        refused.stderr.contains("laptop stolen") && refused.stderr.contains("FL-1203"),
        "{refused:?}"
    );
    let unlock = ["unlock", "user", "locked"];
    world.hub.cli(unlock).await?.success()?;
    get().run().await?.success()?;
    Ok(())
}

#[tokio::test]
async fn killed_exec_prints_the_reason_of_the_admin() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    let token = create_token(world, "killed").await?;
    let exec = [
        token.as_str(),
        "exec",
        "-i",
        world.pod(0),
        "--",
        "sh",
        "-c",
        "echo started; sleep 60",
    ];
    let mut exec = world.kubectl(CallRoute::Path).args(exec).spawn()?;
    exec.next_line().await?.context("it prints a line")?;
    let kill = ["sessions", "kill", "--caller", "killed", "--kind", "exec"];
    let kill = kill.into_iter().chain(["--reason", "maintenance", "--yes"]);
    let killed = world.hub.cli(kill).await?.success()?;
    ensure!(killed.contains("Ended 1"), "{killed}");
    let status = timeout(END_DEADLINE, exec.wait()).await??;
    let text = exec.stderr();
    ensure!(status.code() == Some(1), "{status}: {text}");
    ensure!(
        text.contains("maintenance") && text.contains("FL-1204"),
        "{text}"
    );
    Ok(())
}

#[tokio::test]
async fn token_falls_with_its_owner_and_its_running_calls_end() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    create_token(world, "falling-owner").await?;
    let token = create_token(world, "falling").await?;
    let give = ["token", "hand-over", "falling", "--to", "falling-owner"];
    let given = world.hub.cli(give).await?.success()?;
    ensure!(given.contains("is owned by falling-owner"), "{given}");
    let calls = started(world, "falling", &token, UpgradeProtocol::WebSocket).await?;
    let since = Instant::now();
    let delete = ["token", "delete", "falling-owner", "--yes"];
    world.hub.cli(delete).await?.success()?;
    calls.all_end(since, "FL-1205").await?;
    let get = ["get", "nodes"];
    let kubectl = world.kubectl(CallRoute::Path).args([token.as_str()]);
    let refused = kubectl.args(get).run().await?;
    ensure!(refused.stderr.contains("FL-1102"), "{refused:?}");
    let give = ["token", "hand-over", "falling", "--to", "me"];
    world.hub.cli(give).await?.success()?;
    let kubectl = world.kubectl(CallRoute::Path).args([token.as_str()]);
    kubectl.args(get).run().await?.success()?;
    let listed = world.hub.cli(["token", "list"]).await?.success()?;
    ensure!(listed.contains("LAST USED"), "{listed}");
    Ok(())
}
