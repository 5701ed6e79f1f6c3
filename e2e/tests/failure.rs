//! Death of agent or hub during users' commands: kubectl reports a failure every time, and the next call
//! works without a manual restart.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{
    BodyEnd, Cluster, Hub, Joining, Kubectl, Output, RunningKubectl, Site, UpgradeProtocol,
    eventually, setting,
};
use tokio::time::Instant;

const STEP_DEADLINE: Duration = Duration::from_secs(60);
/// Size of the copied file in bytes, large enough that no kill comes too late.
const FILE_BYTES: u64 = 1024 * 1024 * 1024;
/// Bytes copied before the kill; more than all windows on the path hold.
const COPIED_BYTES: u64 = 4 * 1024 * 1024;

/// A hub, an agent, and kubectl through both, on the cluster that the tests of this file share.
struct FailureWorld {
    cluster: &'static Cluster,
    hub: Hub,
    joining: Joining,
    site: Site,
    kubectl: Kubectl,
    pod: String,
}

/// The killed process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Agent,
    Hub,
}

impl FailureWorld {
    async fn start() -> anyhow::Result<Self> {
        let cluster = Cluster::shared().await?;
        // The session of a killed agent would otherwise be kept for its return.
        let hub = Hub::start_with(&["--resume-window", "1s"]).await?;
        let joining = hub.create_cluster("demo").await?;
        let site = Site::start(&hub, cluster, &joining).await?;
        let kubectl = hub.kubectl(cluster, "demo").await?;
        let pods = kubectl
            .clone()
            .args(["get", "pods", "-l", "app=demo", "-o", "name"]);
        let pods = pods.run().await?.success()?;
        let pod = pods.lines().next().context("no pod")?;
        Ok(Self {
            cluster,
            hub,
            joining,
            site,
            pod: pod.trim_start_matches("pod/").to_owned(),
            kubectl,
        })
    }

    fn kill(&mut self, victim: Victim) -> anyhow::Result<()> {
        match victim {
            Victim::Agent => self.site.process.kill_9(),
            Victim::Hub => self.hub.process.kill_9(),
        }
    }

    /// Restarts the killed process like a supervisor, and touches nothing else.
    async fn come_back(&mut self, victim: Victim) -> anyhow::Result<Duration> {
        let since = Instant::now();
        match victim {
            Victim::Agent => self.site.restart()?,
            Victim::Hub => self.hub.restart().await?,
        }
        let what = format!("kubectl after the death of the {victim:?}");
        let mut last = None;
        let works = eventually(STEP_DEADLINE, &what, async || {
            let get = self.kubectl.clone().args(["get", "nodes", "-o", "name"]);
            let output = get.run().await.ok()?;
            let works = output.status.success();
            last = Some(output);
            works.then_some(())
        })
        .await;
        works.with_context(|| format!("{last:?}; agent: {:?}", self.site.process.log()))?;
        Ok(since.elapsed())
    }

    fn exec(&self, transport: UpgradeProtocol, script: &str) -> anyhow::Result<RunningKubectl> {
        let exec = self
            .kubectl
            .clone()
            .transport(transport)
            .deadline(STEP_DEADLINE);
        exec.args(["exec", "-i", &self.pod, "--", "sh", "-c", script])
            .spawn()
    }

    /// Where the container's files are on this machine.
    fn in_container(&self, name: &str) -> PathBuf {
        let folder = format!("exec/default_{}_demo", self.pod);
        self.cluster.dir().join(folder).join(name)
    }
}

/// Waits for an end that is clearly a failure, and returns the message.
async fn failed(mut running: RunningKubectl) -> anyhow::Result<String> {
    let status = running.wait().await?;
    let said = running.stderr();
    ensure!(status.code() == Some(1), "{status}: {said:?}");
    ensure!(is_readable(&said), "{said:?}");
    Ok(said)
}

/// `true` for kubectl's own sentence or the hub's with its code; never a stack trace or nothing.
fn is_readable(said: &str) -> bool {
    let sentence = said
        .lines()
        .any(|line| line.contains(' ') && line.len() > 15);
    sentence && !said.contains("goroutine") && !said.contains("panic")
}

/// Kills the victim during several commands. A watch is also checked byte by byte, because `kubectl get -w`
/// ignores errors and exits with 0 (`watchOnly` in its `get.go`).
async fn work_dies_with(victim: Victim) -> anyhow::Result<()> {
    let mut world = FailureWorld::start().await?;
    let mut exec = world.exec(UpgradeProtocol::WebSocket, "echo up; cat")?;
    ensure!(exec.next_line().await?.as_deref() == Some("up"));
    let mut over_spdy = world.exec(UpgradeProtocol::Spdy, "echo up; cat")?;
    ensure!(over_spdy.next_line().await?.as_deref() == Some("up"));
    let mut logs = world
        .kubectl
        .clone()
        .args(["logs", "-f", &world.pod])
        .spawn()?;
    logs.next_line().await?.context("the log has ended")?;
    let watch = ["get", "pods", "-l", "app=demo", "-w", "-o", "name"];
    let mut watch = world.kubectl.clone().args(watch).spawn()?;
    watch.next_line().await?.context("the watch has ended")?;
    let request = format!(
        "GET /k8s/clusters/{}/api/v1/namespaces/default/pods?watch=1 HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        world.joining.id,
        world.hub.front()?.address(),
        world.hub.token()?
    );
    let mut raw = world.hub.front()?.open(request.as_bytes()).await?;
    raw.wait_for("\"ADDED\"").await?;

    let since = Instant::now();
    world.kill(victim)?;
    ensure!(
        raw.end().await? == BodyEnd::Incomplete,
        "a broken watch looks whole"
    );
    for (what, running) in [("exec", exec), ("logs -f", logs)] {
        let said = failed(running).await.context(what)?;
        eprintln!("{victim:?} killed, {what}: {said:?}");
    }
    watch.wait().await?;
    // kubectl takes the end of a SPDY connection for the end of the command and exits with 0.
    over_spdy.wait().await?;
    let took = since.elapsed();
    eprintln!("{victim:?} killed: everything ended within {took:?}");
    // Far earlier than the detection of a silent peer.
    ensure!(took < Duration::from_secs(15), "{took:?}");

    let refused = world.kubectl.clone().args(["get", "nodes"]).run().await?;
    ensure!(refused.status.code() == Some(1), "{refused:?}");
    let reason = match victim {
        Victim::Agent => "lost its connection",
        Victim::Hub => "was refused",
    };
    ensure!(refused.stderr.contains(reason), "{}", refused.stderr);
    let took = world.come_back(victim).await?;
    eprintln!("{victim:?} killed: kubectl works again {took:?} after the start");
    Ok(())
}

#[tokio::test]
async fn commands_fail_when_the_agent_dies_and_work_when_it_is_back() -> anyhow::Result<()> {
    work_dies_with(Victim::Agent).await
}

#[tokio::test]
async fn commands_fail_when_the_hub_dies_and_the_agent_reconnects() -> anyhow::Result<()> {
    work_dies_with(Victim::Hub).await
}

#[tokio::test]
async fn aborted_copy_never_succeeds() -> anyhow::Result<()> {
    let kills: u32 = match setting("FAIRLEAD_E2E_KILLS") {
        Some(kills) => kills.parse()?,
        None => 10,
    };
    let mut world = FailureWorld::start().await?;
    let here = tempfile::tempdir()?;
    let (sent, received) = (here.path().join("sent"), here.path().join("received"));
    File::create(&sent)?.set_len(FILE_BYTES)?;
    // The container's folder exists once a command has run in it.
    let mut exec = world.exec(UpgradeProtocol::WebSocket, "echo up")?;
    ensure!(exec.next_line().await?.as_deref() == Some("up"));
    ensure!(exec.wait().await?.success());
    let (source, copy) = (world.in_container("source"), world.in_container("copy"));
    File::create(&source)?.set_len(FILE_BYTES)?;

    let mut failures = 0;
    for round in 0..kills {
        // Both directions, and sometimes the hub. Over SPDY only out of the pod, where the received part
        // shows the loss. Into the pod, kubectl takes the end of the connection for the end of the command.
        let victim = match round % 5 {
            4 => Victim::Hub,
            _ => Victim::Agent,
        };
        let transport = match round % 4 {
            3 => UpgradeProtocol::Spdy,
            _ => UpgradeProtocol::WebSocket,
        };
        let (from, to, grows) = if round % 2 == 0 {
            (
                sent.display().to_string(),
                format!("{}:copy", world.pod),
                &copy,
            )
        } else {
            (
                format!("{}:source", world.pod),
                received.display().to_string(),
                &received,
            )
        };
        drop(fs::remove_file(grows));
        let cp = world
            .kubectl
            .clone()
            .transport(transport)
            .deadline(STEP_DEADLINE);
        let cp = tokio::spawn(cp.args(["cp", "--retries=0", &from, &to]).run());
        let size = eventually(STEP_DEADLINE, "a copy under way", async || {
            let size = fs::metadata(grows).ok()?.len();
            (size >= COPIED_BYTES).then_some(size)
        })
        .await?;
        ensure!(
            size < FILE_BYTES,
            "round {round}: the copy was done before the kill"
        );
        world.kill(victim)?;
        let output: Output = cp.await??;
        let left = fs::metadata(grows)?.len();
        ensure!(
            !output.status.success() && is_readable(&output.stderr),
            "round {round}, {victim:?}, {transport:?}, {from} to {to}, {left} bytes: {output:?}"
        );
        if round < 8 {
            eprintln!(
                "{victim:?}, {transport:?}, {left} bytes: {:?}",
                output.stderr
            );
        }
        failures += 1;
        world.come_back(victim).await?;
    }
    eprintln!(
        "cut off and failed: {failures} of {kills}; cluster {}",
        world.joining.id
    );
    Ok(())
}
