//! Running calls of kubectl that lose their access: each ends within seconds, with the reason, and fails.

use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{RunningKubectl, UpgradeProtocol};
use tokio::time::timeout;

use crate::BOTH;
use crate::world::{CallRoute, KubectlWorld};

/// Time in which each running request of a deleted token ends.
const END_DEADLINE: Duration = Duration::from_secs(10);
const ECHO_PORT: u16 = 7;
/// Name of an object, or message of the `Status` in the last event.
const WATCHED_FIELDS: &str = "jsonpath={.metadata.name}{.message}{'\\n'}";

/// A running call, with a part of its last words.
struct RunningCall {
    name: &'static str,
    kubectl: RunningKubectl,
    says: &'static str,
}

async fn create_token(world: &KubectlWorld, name: &str) -> anyhow::Result<String> {
    let create = ["token", "create", name, "--role", "admin", "-o"];
    let create = create.into_iter().chain(["jsonpath={.token}"]);
    let token = world.hub.cli(create).await?.success()?;
    Ok(format!("--token={}", token.trim()))
}

async fn started(
    world: &KubectlWorld,
    token: &str,
    over: UpgradeProtocol,
    code: &'static str,
) -> anyhow::Result<Vec<RunningCall>> {
    let kubectl = || world.kubectl(CallRoute::Path).args([token]).transport(over);
    let mut calls = Vec::new();
    let lines: [(&'static str, Vec<&str>); 3] = [
        (
            "exec",
            vec![
                "exec",
                "-i",
                world.pod(0),
                "--",
                "sh",
                "-c",
                "echo started; sleep 60",
            ],
        ),
        (
            "watch",
            vec!["get", "namespaces", "-w", "-o", WATCHED_FIELDS],
        ),
        ("logs", vec!["logs", "-f", world.pod(1)]),
    ];
    for (name, args) in lines {
        let mut running = kubectl().args(&args).spawn()?;
        if name != "logs" {
            running.next_line().await?.context("it prints a line")?;
        }
        calls.push(RunningCall {
            name,
            kubectl: running,
            says: code,
        });
    }
    // Another test counts the forwards to the first pod.
    let target = format!("pod/{}", world.pod(1));
    let (_, forward) = kubectl().port_forward(&target, ECHO_PORT).await?;
    calls.push(RunningCall {
        name: "port-forward",
        kubectl: forward,
        says: "lost connection to pod",
    });
    let listed = ["sessions", "list", "-o", "json"];
    fairlead_e2e::eventually(END_DEADLINE, "four requests in the list", async || {
        let listed = world.hub.cli(listed).await.ok()?.success().ok()?;
        let kinds = ["exec", "watch", "log", "port-forward"];
        let has = |kind: &&str| listed.contains(&format!("\"kind\": \"{kind}\""));
        kinds.iter().all(has).then_some(())
    })
    .await?;
    Ok(calls)
}

async fn all_end(calls: Vec<RunningCall>, over: UpgradeProtocol) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    for RunningCall {
        name,
        mut kubectl,
        says,
    } in calls
    {
        let Ok(ended) = timeout(END_DEADLINE, async {
            let mut printed = String::new();
            while let Some(line) = kubectl.next_line().await? {
                printed.push_str(&line);
                printed.push('\n');
            }
            anyhow::Ok((kubectl.wait().await?, printed))
        })
        .await
        else {
            failed.push(format!("{name} over {over:?} still runs"));
            continue;
        };
        let (status, printed) = ended?;
        let text = format!("{printed}{}", kubectl.stderr());
        // kubectl prints the `Status` of a watch like any object, also that of an API server, and exits with 0.
        let expected = if name == "watch" { 0 } else { 1 };
        if status.code() != Some(expected) || !text.contains(says) {
            failed.push(format!("{name} over {over:?}: {status}: {text}"));
        }
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

#[tokio::test]
async fn deleted_token_ends_running_calls_with_the_reason() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    for over in BOTH {
        let name = format!("ended-{over:?}").to_lowercase();
        let token = create_token(world, &name).await?;
        let calls = started(world, &token, over, "FL-1205").await?;
        let deleted = world.hub.cli(["token", "delete", &name, "--yes"]).await?;
        deleted.success()?;
        all_end(calls, over).await?;
    }
    Ok(())
}

#[tokio::test]
async fn lock_of_a_user_ends_running_calls_and_refuses_new_ones() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    let over = UpgradeProtocol::WebSocket;
    let token = create_token(world, "locked").await?;
    let calls = started(world, &token, over, "FL-1203").await?;
    let lock = ["lock", "user", "locked", "--reason", "laptop stolen"];
    world.hub.cli(lock).await?.success()?;
    all_end(calls, over).await?;
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
