//! Long-running commands: changes, watches, and configuration changes of an agent.

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, Launch, Process, Site, eventually};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

use crate::{STEP_DEADLINE, file};

/// Starts `fairlead ARGS` in the background with its output in a file.
fn going_on(hub: &Hub, name: &str, args: &[&str]) -> anyhow::Result<Process> {
    let fairlead = Launch::fairlead()?.env("HOME", hub.dir()).args(args);
    fairlead.spawn(hub.dir().join(name))
}

#[tokio::test]
async fn changes_are_followed_over_a_restart_of_the_hub_without_a_gap() -> anyhow::Result<()> {
    let mut hub = Hub::start().await?;
    hub.cli(["tenant", "create", "before"]).await?.success()?;
    let all = hub.cli(["changes"]).await?;
    let told = all.stderr.clone();
    let all = all.success()?;
    ensure!(
        all.starts_with("REVISION") && all.contains("t-before"),
        "{all}"
    );
    let since = told
        .trim()
        .strip_prefix("continue with --since ")
        .context(told.clone())?
        .to_owned();

    let mut follow = going_on(
        &hub,
        "changes.log",
        &["changes", "--since", &since, "-f", "-o", "json"],
    )?;
    hub.cli(["tenant", "create", "one"]).await?.success()?;
    follow.wait_for_log("\"t-one\"", STEP_DEADLINE).await?;
    hub.process.kill_9()?;
    // Without a request meanwhile it would not know that the hub was away.
    follow
        .wait_for_log("waiting for the hub", STEP_DEADLINE)
        .await?;
    hub.restart().await?;
    for name in ["two", "three"] {
        hub.cli(["tenant", "create", name]).await?.success()?;
    }
    follow.wait_for_log("\"t-three\"", STEP_DEADLINE).await?;
    let log = follow.log()?;
    let seen = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ids: Vec<String> = seen
        .filter(|it| it["kind"] == "tenant")
        .map(|it| it["id"].as_str().unwrap_or_default().to_owned())
        .collect();
    ensure!(ids == ["t-one", "t-two", "t-three"], "{log}");
    ensure!(log.contains("the hub is back"), "{log}");

    let gone = hub.cli(["changes", "--since", "99999"]).await?;
    ensure!(gone.stderr.ends_with("code:  FL-4115\n"), "{gone:?}");
    let wrong = hub.cli(["changes", "--since", "yesterday"]).await?;
    ensure!(wrong.status.code() == Some(2), "{wrong:?}");
    Ok(())
}

#[tokio::test]
async fn watch_prints_each_changed_object_in_its_new_state() -> anyhow::Result<()> {
    let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), Hub::start())?;
    let joining = hub.create_cluster("demo").await?;
    let id = joining.id.as_str();
    let mut get = going_on(&hub, "get.log", &["cluster", "get", id, "-w"])?;
    let mut list = going_on(
        &hub,
        "list.log",
        &[
            "cluster",
            "list",
            "-w",
            "-o",
            "jsonpath={.id} {.status.state}{.deleted}",
        ],
    )?;
    let mut tenant = going_on(
        &hub,
        "tenant.log",
        &["tenant", "get", "t-default", "-w", "-o", "name"],
    )?;
    get.wait_for_log("Never", STEP_DEADLINE).await?;
    list.wait_for_log(&format!("{id} Never"), STEP_DEADLINE)
        .await?;
    tenant.wait_for_log("t-default\n", STEP_DEADLINE).await?;

    let mut site = Site::start(&hub, &cluster, &joining).await?;
    get.wait_for_log("Connected", STEP_DEADLINE).await?;
    list.wait_for_log(&format!("{id} Connected"), STEP_DEADLINE)
        .await?;
    hub.cli(["cluster", "set", id, "--name", "renamed"])
        .await?
        .success()?;
    get.wait_for_log("renamed", STEP_DEADLINE).await?;
    site.process.kill_9()?;
    list.wait_for_log(&format!("{id} Lost"), STEP_DEADLINE)
        .await?;
    get.wait_for_log("Lost", STEP_DEADLINE).await?;

    let rename = "{id: t-default, displayName: Ours}";
    let rename = file(&hub, "tenant.yaml", rename)?;
    hub.cli(["tenant", "apply", "-f", &rename])
        .await?
        .success()?;
    eventually(STEP_DEADLINE, "the tenant again", async || {
        (tenant.log().ok()? == "t-default\nt-default\n").then_some(())
    })
    .await?;

    hub.cli(["cluster", "delete", id, "--yes"])
        .await?
        .success()?;
    get.wait_for_log(&format!("{id} was deleted"), STEP_DEADLINE)
        .await?;
    ensure!(
        get.wait(STEP_DEADLINE).await?.success(),
        "a deleted cluster ends the wait"
    );
    list.wait_for_log(&format!("{id} true"), STEP_DEADLINE)
        .await?;
    let log = get.log()?;
    let states = ["Never", "Connected", "renamed", "Lost"].map(|state| log.find(state));
    ensure!(
        states.is_sorted() && states.iter().all(Option::is_some),
        "{log}"
    );
    Ok(())
}

#[tokio::test]
async fn filtered_object_of_a_watch_is_not_reported_as_deleted() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    hub.cli(["tenant", "create", "gold"]).await?.success()?;
    // A generated id may contain the text, for example c-golden-heron-1095.
    let id = "c-one";
    let create = ["cluster", "create", "gold", "--id", id];
    hub.cli(create).await?.success()?;
    let list = |name: &str, what: &str, format: &str| {
        let args = [what, "list", "-w", "--text", "gold", "-o", format];
        going_on(&hub, name, &args)
    };
    let mut tenants = list("tenants.log", "tenant", "table")?;
    let mut clusters = list("clusters.log", "cluster", "table")?;
    let mut told = list("told.log", "cluster", "json")?;
    tenants.wait_for_log("t-gold", STEP_DEADLINE).await?;
    clusters.wait_for_log(id, STEP_DEADLINE).await?;
    told.wait_for_log(id, STEP_DEADLINE).await?;

    hub.cli(["cluster", "set", id, "--name", "silver"])
        .await?
        .success()?;
    let parted = format!("{id} no longer matches");
    clusters.wait_for_log(&parted, STEP_DEADLINE).await?;
    let parted = format!(r#"{{"id":"{id}","matches":false}}"#);
    told.wait_for_log(&parted, STEP_DEADLINE).await?;

    hub.cli(["cluster", "set", id, "--name", "gold"])
        .await?
        .success()?;
    eventually(STEP_DEADLINE, "the cluster again", async || {
        let log = clusters.log().ok()?;
        let rows = log.lines().filter(|line| line.starts_with("gold "));
        (rows.count() == 2).then_some(())
    })
    .await?;
    hub.cli(["cluster", "delete", id, "--yes"])
        .await?
        .success()?;
    hub.cli(["tenant", "delete", "t-gold", "--yes"])
        .await?
        .success()?;
    clusters
        .wait_for_log(&format!("{id} was deleted"), STEP_DEADLINE)
        .await?;
    let deleted = format!(r#"{{"deleted":true,"id":"{id}"}}"#);
    told.wait_for_log(&deleted, STEP_DEADLINE).await?;
    tenants
        .wait_for_log("t-gold was deleted", STEP_DEADLINE)
        .await?;
    Ok(())
}

#[tokio::test]
async fn change_of_a_clusters_configuration_reaches_its_connected_agent() -> anyhow::Result<()> {
    let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), Hub::start())?;
    let joining = hub.create_cluster("demo").await?;
    let mut site = Site::start(&hub, &cluster, &joining).await?;
    let revision = async || {
        let agents = hub.front().ok()?;
        let token = hub.token().ok()?;
        let asked = format!(
            "GET /v1/agents HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
        );
        let answer: Value = serde_json::from_str(&agents.send(asked).await.ok()?.text()).ok()?;
        let one = answer["items"][0].clone();
        (one["desired"] == one["applied"]).then(|| one["desired"].to_string())
    };
    let before = eventually(STEP_DEADLINE, "a configuration", revision).await?;
    hub.cli(["cluster", "set", "demo", "--tenant-revision", "v2"])
        .await?
        .success()?;
    let after = eventually(STEP_DEADLINE, "another configuration", async || {
        revision().await.filter(|it| *it != before)
    })
    .await?;
    site.process
        .wait_for_log(after.trim_matches('"'), STEP_DEADLINE)
        .await?;
    let list = hub
        .cli(["cluster", "list", "-o", "wide"])
        .await?
        .success()?;
    ensure!(
        list.contains("Connected") && !list.contains("outdated"),
        "{list}"
    );
    Ok(())
}

#[tokio::test]
async fn wait_ends_when_the_bootstrap_token_is_revoked() -> anyhow::Result<()> {
    let hub = Hub::start().await?;
    let mut create = tokio::process::Command::new(Launch::fairlead()?.program())
        .args(["cluster", "create", "demo", "--wait"])
        .env_clear()
        .env("HOME", hub.dir())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut steps = BufReader::new(create.stderr.take().context("stderr")?).lines();
    let mut said = timeout(STEP_DEADLINE, steps.next_line())
        .await??
        .context("no step")?;
    ensure!(said == "waiting for the agent to enrol", "{said}");
    hub.cli(["cluster", "token", "revoke", "demo", "--yes"])
        .await?
        .success()?;
    while let Some(line) = timeout(STEP_DEADLINE, steps.next_line()).await?? {
        said += &format!("\n{line}");
    }
    let status = timeout(STEP_DEADLINE, create.wait()).await??;
    ensure!(status.code() == Some(5), "{said}");
    ensure!(
        said.contains("was revoked") && said.contains("fairlead cluster token renew c-"),
        "{said}"
    );
    ensure!(
        said.ends_with("code:  FL-4113") && !said.contains("enrolled"),
        "{said}"
    );
    Ok(())
}
