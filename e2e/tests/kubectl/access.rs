//! A role for a time: requested, approved by a second person, used by kubectl, and revoked.

use anyhow::{Context, ensure};
use fairlead_e2e::{
    END_DEADLINE, Output, RunningCalls, UpgradeProtocol, eventually, fleet::fairlead,
};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use crate::STEP_DEADLINE;
use crate::world::{CallRoute, KubectlWorld};

/// A caller with an API token of its own.
struct TokenHolder(String);

impl TokenHolder {
    async fn new(world: &KubectlWorld, name: &str, role: &str) -> anyhow::Result<Self> {
        let create = ["token", "create", name, "--role", role, "-o"];
        let create = create.into_iter().chain(["jsonpath={.token}"]);
        let token = world.hub.cli(create).await?.success()?;
        Ok(TokenHolder(token.trim().to_owned()))
    }

    fn flag(&self) -> String {
        format!("--token={}", self.0)
    }

    async fn run(&self, world: &KubectlWorld, line: &str) -> anyhow::Result<Output> {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let env = [("FAIRLEAD_TOKEN", self.0.as_str())];
        fairlead(world.hub.dir(), &args, &env).await
    }

    async fn request(&self, world: &KubectlWorld, cluster: &str) -> anyhow::Result<String> {
        let line = format!(
            "access request --cluster {cluster} --role admin --for 1h --reason ticket-17 -o json"
        );
        let made: Value = serde_json::from_str(&self.run(world, &line).await?.success()?)?;
        ensure!(made["state"] == "pending", "{made}");
        Ok(made["id"].as_str().context("id")?.to_owned())
    }
}

#[tokio::test]
async fn approved_role_works_and_ends_with_its_revocation() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    let ann = TokenHolder::new(world, "access-ann", "viewer").await?;
    let bob = TokenHolder::new(world, "access-bob", "admin").await?;
    let flag = ann.flag();
    let kubectl = || world.kubectl(CallRoute::Path).args([flag.as_str()]);
    let exec = [
        "exec",
        "-i",
        world.pod(0),
        "--",
        "sh",
        "-c",
        "echo started; sleep 60",
    ];
    let refused = kubectl().args(exec).run().await?;
    ensure!(refused.stderr.contains("forbidden"), "{refused:?}");

    let id = ann.request(world, "demo").await?;
    let own = ann.run(world, &format!("access approve {id}")).await?;
    ensure!(own.stderr.contains("FL-1201"), "{own:?}");
    let pending = bob
        .run(world, "access list --state pending")
        .await?
        .success()?;
    ensure!(
        pending.contains(&id) && pending.contains("access-ann"),
        "{pending}"
    );
    let approved = bob
        .run(world, &format!("access approve {id}"))
        .await?
        .success()?;
    ensure!(approved.contains("active"), "{approved}");
    let who = ann.run(world, "whoami").await?.success()?;
    ensure!(who.contains(&id), "{who}");

    let mut running = kubectl().args(exec).spawn()?;
    running.next_line().await?.context("it prints a line")?;
    let over = UpgradeProtocol::WebSocket;
    let pods = world.pods_of_calls();
    let calls = RunningCalls::start("temporary role", || kubectl().transport(over), pods).await?;
    let since = Instant::now();
    let revoke = format!("access revoke {id} --comment job-done");
    bob.run(world, &revoke).await?.success()?;
    calls.all_end(since, "FL-1205").await?;
    let status = timeout(END_DEADLINE, running.wait()).await??;
    let text = running.stderr();
    ensure!(status.code() == Some(1), "{status}: {text}");
    let reason = format!("access {id} was revoked by access-bob: job-done");
    ensure!(text.contains(&reason), "{text}");
    let refused = kubectl().args(exec).run().await?;
    ensure!(refused.stderr.contains("forbidden"), "{refused:?}");

    // The audit log names the request at each use.
    let events = ["audit", "requests", "--caller", "access-ann", "-o", "json"];
    eventually(STEP_DEADLINE, "the request in the audit log", async || {
        let events = world.hub.cli(events).await.ok()?.success().ok()?;
        events.contains(&format!("\"{id}\"")).then_some(())
    })
    .await
}

#[tokio::test]
async fn nobody_takes_a_role_in_an_emergency_by_default() -> anyhow::Result<()> {
    let world = KubectlWorld::shared().await?;
    let eve = TokenHolder::new(world, "access-eve", "admin").await?;
    let line = "access break-glass --cluster demo --reason all-down";
    let refused = eve.run(world, line).await?;
    ensure!(refused.stderr.contains("FL-1201"), "{refused:?}");
    Ok(())
}
