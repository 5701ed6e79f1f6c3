//! Faults that the hub or the cluster knows of: tokens, authorities, the API server, rights, a hub that drains.

use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, Launch, Pod, Site, admin::get_plain, eventually};
use serde_json::Value;

use crate::world::{DoctorWorld, Expected, Fault, stages};

const STEP_DEADLINE: Duration = Duration::from_secs(30);
/// Tokens live for a minute at least.
const TOKEN_DEADLINE: Duration = Duration::from_secs(120);

#[tokio::test]
async fn refused_token_or_hub_has_its_stage_and_code() -> anyhow::Result<()> {
    let world = DoctorWorld::start().await?;
    let other = Hub::start().await?;
    let spent = world
        .fault("spent", ("identity", "FL-2103"), &["renew"])
        .await?;
    let _first = Site::begin(&world.hub, &world.cluster, &spent.join, "first")?;
    world.hub.wait_state("spent", "Connected").await?;
    world.check(&spent).await?;
    // The agent that has the identity is not affected.
    let shown = world.hub.cluster("spent").await?;
    ensure!(shown["status"]["state"] == "Connected", "{shown}");

    let unknown = world.fault("unknown", ("identity", "FL-2101"), &[]).await?;
    let renew = ["cluster", "token", "renew", "unknown", "--yes"];
    world.hub.cli(renew).await?.success()?;
    world.check(&unknown).await?;

    // The front is trusted by its CA, the hub itself by no pin.
    let theirs = other.create_cluster("theirs").await?.join;
    let strange = world
        .fault("strange", ("inner-tls", "FL-3108"), &[])
        .await?;
    let strange = Fault {
        join: theirs,
        url: Some(world.hub.ready().url.clone()),
        ca_file: Some(world.hub.ready().ca_file.clone()),
        ..strange
    };
    world.check(&strange).await
}

#[tokio::test]
async fn expired_token_has_its_stage_and_code() -> anyhow::Result<()> {
    let hub = Hub::start_server(&["--bootstrap-ttl", "1m"]).await?;
    hub.log_in().await?;
    let world = DoctorWorld::with(hub).await?;
    let expired = world
        .fault("expired", ("identity", "FL-2102"), &["renew"])
        .await?;
    eventually(TOKEN_DEADLINE, "the end of the token", async || {
        let (_, checkup) = world.doctor(&expired, &[]).await.ok()?;
        checkup.to_string().contains("FL-2102").then_some(())
    })
    .await?;
    world.check(&expired).await
}

#[tokio::test]
async fn dead_api_server_has_its_stage_and_code() -> anyhow::Result<()> {
    let world = DoctorWorld::start().await?;
    let dead = crate::servers::FaultyServer::refusing()?;
    let kubeconfig = std::fs::read_to_string(world.cluster.kubeconfig())?;
    let port = format!(":{}", world.cluster.api_port());
    let moved = kubeconfig.replace(&port, &format!(":{}", dead.address.port()));
    ensure!(moved != kubeconfig, "{kubeconfig}");
    let fault = world
        .fault("dead-api", ("api-server", "FL-1502"), &[])
        .await?;
    let fault = Fault {
        kubeconfig: world.write("dead.kubeconfig", &moved)?,
        // Nobody stores an Event.
        event: Expected::LogOnly,
        ..fault
    };
    world.check(&fault).await?;
    let _agent = world.agent(&fault)?;
    world.hub.wait_state("dead-api", "ApiUnreachable").await
}

#[tokio::test]
async fn missing_rights_are_named() -> anyhow::Result<()> {
    let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), Hub::start())?;
    let joining = hub.create_cluster("pod").await?;
    let url = joining.install_url.strip_prefix("http://");
    let (address, path) = url.and_then(|url| url.split_once('/')).context("URL")?;
    let manifest = get_plain(address.parse()?, &format!("/{path}")).await?;
    let pod = Pod::install(&cluster, &manifest, "fairlead", "fairlead-agent").await?;
    let doctor = async |flags: &[&str]| -> anyhow::Result<(Option<i32>, String)> {
        let launch = Launch::agent()?.args(flags).inside(&pod);
        let launch = launch
            .env("FAIRLEAD_JOIN", &joining.join)
            .env("HOME", hub.dir());
        let mut command = tokio::process::Command::from(launch.command());
        let output = command.output().await?;
        Ok((output.status.code(), String::from_utf8(output.stdout)?))
    };
    let (status, text) = doctor(&["agent", "--check"]).await?;
    ensure!(status == Some(0), "{text}");
    ensure!(text.contains("rights      ok"), "{text}");

    let delete = ["delete", "clusterrolebinding", "fairlead-agent"];
    cluster.kubectl().args(delete).run().await?.success()?;
    let mut agent = Site::begin_in(&hub, &pod, &joining.join, "pod")?;
    // It has stored the identity by then, which the doctor uses as well.
    agent.process.wait_for_log("FL-1512", STEP_DEADLINE).await?;
    let (status, json) = doctor(&["doctor", "-o", "json"]).await?;
    ensure!(status == Some(1), "{json}");
    let checkup: Value = serde_json::from_str(&json)?;
    let failed = stages(&checkup)
        .into_iter()
        .find(|it| it["result"] == "failed");
    let failed = failed.context("nothing failed")?;
    ensure!(
        failed["stage"] == "rights" && failed["code"] == "FL-1512",
        "{failed}"
    );
    let cause = failed["cause"].as_str().unwrap_or_default();
    ensure!(cause.contains("impersonate users, "), "{cause}");
    let world = DoctorWorld { cluster, hub };
    world.event("RightsMissing", "", "FL-1512").await?;
    Ok(())
}

#[tokio::test]
async fn draining_hub_has_its_stage_and_code() -> anyhow::Result<()> {
    // It must not end before its agents have dialled it three times.
    let hub = Hub::start_with(&["--drain-timeout", "120s"]).await?;
    let mut world = DoctorWorld::with(hub).await?;
    let serving = world.hub.create_cluster("serving").await?;
    let _site = Site::start(&world.hub, &world.cluster, &serving).await?;
    let drained = world
        .fault("drained", ("link", "FL-1406"), &["shutting down"])
        .await?;
    let watch = world.hub.kubectl(&world.cluster, "serving").await?;
    let mut watch = watch
        .args(["get", "namespaces", "-w", "-o", "name"])
        .spawn()?;
    watch.next_line().await?.context("the watch has ended")?;
    // The output so far is the list that precedes the watch, and may still be counted as open.
    eventually(STEP_DEADLINE, "the watch", async || {
        let listed = world
            .hub
            .cli(["sessions", "list", "-o", "json"])
            .await
            .ok()?;
        let listed = listed.success().ok()?;
        listed.contains("\"kind\": \"watch\"").then_some(())
    })
    .await?;
    world.hub.process.term()?;
    world
        .hub
        .process
        .wait_for_log("drain", STEP_DEADLINE)
        .await?;
    world.check(&drained).await
}
