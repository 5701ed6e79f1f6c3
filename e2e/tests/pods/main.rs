//! Both charts, installed by Helm and run by the kubelet of the tests, with kubectl through them.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod world;

use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{RunningKubectl, eventually};

use world::PodsWorld;

/// Streams that run during the upgrade.
const EXEC_COUNT: usize = 20;
const WATCH_COUNT: usize = 50;
const STREAM_DEADLINE: Duration = Duration::from_secs(240);
const STEP_DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn upgrade_of_the_agent_loses_no_exec_and_no_watch() -> anyhow::Result<()> {
    let world = PodsWorld::start().await?;
    let answered = world.upgraded().await;
    let problems = world.kubelet.problems();
    answered.with_context(|| format!("problems: {problems:#?}\n{}", world.logs()))
}

impl PodsWorld {
    async fn upgraded(&self) -> anyhow::Result<()> {
        self.install_hub().await?;
        let agent = self.install_agent().await?;
        let kubectl = self.kubectl().await?;
        let pods = kubectl
            .clone()
            .args(["get", "pods", "-l", "app=demo", "-o", "name"])
            .run()
            .await?
            .success()?;
        let pods: Vec<&str> = pods.lines().collect();
        let first = pods.first().context("no pod")?;
        let (mut execs, mut watches) = (Vec::new(), Vec::new());
        for _ in 0..EXEC_COUNT {
            let exec = ["exec", "-i", first, "--", "sh", "-c", "echo up; cat"];
            let mut exec = kubectl
                .clone()
                .deadline(STREAM_DEADLINE)
                .args(exec)
                .spawn()?;
            ensure!(exec.next_line().await?.as_deref() == Some("up"));
            execs.push(exec);
        }
        for _ in 0..WATCH_COUNT {
            let watch = ["get", "configmaps", "-w", "-o", "name"];
            let mut watch = kubectl
                .clone()
                .deadline(STREAM_DEADLINE)
                .args(watch)
                .spawn()?;
            let line = watch.next_line().await?;
            ensure!(line.is_some(), "{}", watch.stderr());
            watches.push(watch);
        }
        let before = self.agent_pods().await?;
        ensure!(before.len() == 2, "{before:?}");
        // Another annotation replaces both pods, one after the other.
        self.helm_agent(&agent, &["--set", "podAnnotations.note=second"])
            .await?;
        self.rolled_out("deployment/fairlead-agent", "fairlead")
            .await?;
        let replaced = eventually(STEP_DEADLINE, "two other pods", async || {
            let pods = self.agent_pods().await.ok()?;
            let is_old = |pod: &String| before.contains(pod);
            (pods.len() == 2 && !pods.iter().any(is_old)).then_some(())
        });
        replaced.await?;
        for (number, exec) in execs.iter_mut().enumerate() {
            let line = format!("still {number}");
            exec.write(format!("{line}\n").as_bytes()).await?;
            let answer = exec.next_line().await.context("exec")?;
            ensure!(answer.as_deref() == Some(line.as_str()), "{answer:?}");
        }
        let create = ["create", "configmap", "after-the-upgrade"];
        kubectl.clone().args(create).run().await?.success()?;
        for watch in &mut watches {
            found(watch, "configmap/after-the-upgrade").await?;
        }
        Ok(())
    }
}

/// Reads lines of a watch until this one.
async fn found(watch: &mut RunningKubectl, line: &str) -> anyhow::Result<()> {
    loop {
        let read = watch.next_line().await.context("watch")?;
        match read {
            Some(read) if read == line => return Ok(()),
            Some(_) => {}
            None => anyhow::bail!("the watch has ended: {}", watch.stderr()),
        }
    }
}

#[tokio::test]
async fn plain_manifest_connects_as_the_chart_does() -> anyhow::Result<()> {
    let world = PodsWorld::start().await?;
    let answered = async {
        world.install_hub().await?;
        world.apply_manifest().await?;
        let get = world.kubectl().await?.args(["get", "nodes", "-o", "name"]);
        let nodes = get.run().await?.success()?;
        ensure!(nodes.contains("node/kubelet"), "{nodes}");
        anyhow::Ok(())
    };
    let answered = answered.await;
    let problems = world.kubelet.problems();
    answered.with_context(|| format!("problems: {problems:#?}\n{}", world.logs()))
}

#[tokio::test]
async fn container_that_ends_is_started_again_and_shown_so() -> anyhow::Result<()> {
    let world = PodsWorld::start().await?;
    // Without the Secret the container is not created, and without a hub its agent ends by itself.
    let values = [
        "--set",
        "tenant=t-acme,existingSecret=late,delivery=none,replicas=1",
    ];
    world.helm_agent("", &values).await?;
    let reason = |pods: &serde_json::Value| {
        let state = &pods["items"][0]["status"]["containerStatuses"][0]["state"];
        state["waiting"]["reason"].as_str().map(str::to_owned)
    };
    world
        .until_agent_pods("CreateContainerConfigError", |pods| {
            reason(pods).as_deref() == Some("CreateContainerConfigError")
        })
        .await?;
    let create = [
        "create",
        "secret",
        "generic",
        "late",
        "-n",
        "fairlead",
        "--from-literal",
        "join=fl1.x",
    ];
    world
        .cluster
        .kubectl()
        .args(create)
        .run()
        .await?
        .success()?;
    world
        .until_agent_pods("CrashLoopBackOff after restarts", |pods| {
            let status = &pods["items"][0]["status"]["containerStatuses"][0];
            let restarts = status["restartCount"].as_u64().unwrap_or_default();
            restarts >= 2 && reason(pods).as_deref() == Some("CrashLoopBackOff")
        })
        .await?;
    ensure!(world.logs().contains("FL-"), "{}", world.logs());
    Ok(())
}
