//! Adoption by code: an agent in a pod without a join string, its Event, and a person who approves it.

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, Pod, Site, admin::get_plain, eventually};
use serde_json::Value;

use crate::world::{NAMESPACE, STEP_DEADLINE};

const ACCOUNT: &str = "fairlead-agent";

struct Waiting {
    cluster: Cluster,
    hub: Hub,
    pod: Pod,
}

impl Waiting {
    async fn start() -> anyhow::Result<Self> {
        let (cluster, hub) =
            tokio::try_join!(Cluster::start_lite(), Hub::start_with(&["--adoption"]))?;
        let address = hub.ready().admin_url.trim_start_matches("http://");
        let manifest =
            get_plain(address.parse()?, "/install/adoption.yaml?tenant=t-default").await?;
        ensure!(!manifest.contains("fairlead-join"), "{manifest}");
        let pod = Pod::install(&cluster, &manifest, NAMESPACE, ACCOUNT).await?;
        Ok(Waiting { cluster, hub, pod })
    }

    fn agent(&self) -> anyhow::Result<Site> {
        let ca = self.hub.ready().ca_file.display().to_string();
        let flags = ["--adopt", "--hub", &self.hub.ready().url, "--ca-file", &ca];
        Site::begin_waiting(&self.hub, &self.pod, "pod", &flags)
    }

    /// Message of the Event with the code.
    async fn event(&self) -> anyhow::Result<String> {
        let kubectl = self.cluster.kubectl();
        let get = ["get", "events", "-n", NAMESPACE, "-o", "json"];
        eventually(STEP_DEADLINE, "the Event with the code", async || {
            let events = kubectl.clone().args(get).run().await.ok()?.success().ok()?;
            let events: Value = serde_json::from_str(&events).ok()?;
            let mut items = events["items"].as_array()?.iter();
            let event = items.find(|it| it["reason"] == "WaitsForAdoption")?;
            Some(event["message"].as_str()?.to_owned())
        })
        .await
    }
}

fn code_in(message: &str) -> anyhow::Result<String> {
    let after = message.split("adoption approve ").nth(1);
    let code = after.and_then(|it| it.split('`').next());
    Ok(code.context("the Event has no code")?.to_owned())
}

#[tokio::test]
async fn agent_without_a_join_string_is_adopted_by_its_code() -> anyhow::Result<()> {
    let world = Waiting::start().await?;
    let mut agent = world.agent()?;
    let message = world.event().await?;
    let code = code_in(&message)?;
    let by_log = agent.process.wait_for_log(&code, STEP_DEADLINE).await;
    by_log.context("the log has no code")?;
    let log = agent.process.log()?;

    // The person compares the key. Before the approval the hub knows no cluster.
    let list = world
        .hub
        .cli(["adoption", "list", "-o", "json"])
        .await?
        .success()?;
    ensure!(!list.contains(&code), "{list}");
    let list: Value = serde_json::from_str(&list)?;
    let waiting = &list["items"][0];
    let key = waiting["keyFingerprint"].as_str().context("no key")?;
    ensure!(message.contains(key) && log.contains(key), "{message}");
    ensure!(waiting["kubernetesVersion"].is_string(), "{waiting}");
    let clusters = world
        .hub
        .cli(["cluster", "list", "-o", "json"])
        .await?
        .success()?;
    ensure!(
        clusters.contains("\"items\": []") || clusters.trim() == "[]",
        "{clusters}"
    );

    // A wrong code registers nothing.
    let wrong = [
        "adoption",
        "approve",
        "0000-0000",
        "--name",
        "wrong",
        "--yes",
    ];
    let wrong = world.hub.cli(wrong).await?;
    ensure!(
        !wrong.status.success() && wrong.stderr.contains("FL-2116"),
        "{}",
        wrong.stderr
    );

    let approve = [
        "adoption", "approve", &code, "--name", "edge", "--key", key, "--yes",
    ];
    world.hub.cli(approve).await?.success()?;
    world.hub.wait_state("edge", "Connected").await?;
    let kubectl = world.hub.kubectl(&world.cluster, "edge").await?;
    let get = kubectl
        .args(["get", "namespaces", "-o", "name"])
        .run()
        .await?;
    ensure!(get.success()?.contains("namespace/fairlead\n"));

    // It returns with its identity, and waits for nobody.
    agent.process.kill_9()?;
    agent.restart()?;
    world.hub.wait_state("edge", "Connected").await?;
    let log = agent.process.log()?;
    ensure!(
        log.matches("agent waits for its adoption").count() == 1,
        "{log}"
    );
    Ok(())
}

#[tokio::test]
async fn refused_agent_gets_no_cluster() -> anyhow::Result<()> {
    let world = Waiting::start().await?;
    let agent = world.agent()?;
    let code = code_in(&world.event().await?)?;
    world
        .hub
        .cli(["adoption", "refuse", &code, "--yes"])
        .await?
        .success()?;
    eventually(
        STEP_DEADLINE,
        "the refusal in the agent's log",
        async || agent.process.log().ok()?.contains("FL-2115").then_some(()),
    )
    .await?;
    let approve = ["adoption", "approve", &code, "--name", "edge", "--yes"];
    let approved = world.hub.cli(approve).await?;
    ensure!(approved.stderr.contains("FL-2116"), "{}", approved.stderr);
    Ok(())
}
