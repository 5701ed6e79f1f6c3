//! Every table on a terminal of 80 columns, with names, ids and texts of maximal length. `--nocapture` prints
//! them.

use std::fs;

use anyhow::ensure;
use fairlead_e2e::{Cluster, Hub, Output, Site, eventually, fleet::fairlead};

use crate::{STEP_DEADLINE, apply, file};

/// Columns of the terminal.
const TERMINAL_COLUMNS: usize = 80;

async fn within(hub: &Hub, args: &[&str]) -> anyhow::Result<Output> {
    let args: Vec<_> = args.iter().map(ToString::to_string).collect();
    let columns = TERMINAL_COLUMNS.to_string();
    let env = [
        ("HOME", hub.dir().to_str().unwrap_or_default()),
        ("COLUMNS", &columns),
    ];
    fairlead(hub.dir(), &args, &env).await
}

/// A hub whose clusters and tenants have short names, and the longest ones.
async fn crowded() -> anyhow::Result<Hub> {
    let hub = Hub::start().await?;
    let long = |prefix: &str| prefix.to_owned() + &"x".repeat(63 - prefix.len());
    let text = "a text that goes on and on ".repeat(12);
    let documents = format!(
        "{{id: t-acme, displayName: Acme, gitRepo: {{type: unmanaged}}}}\n---\n\
         {{id: {tenant}, displayName: {name}, tenantRef: t-acme, gitRepo: {{type: unmanaged}}}}\n---\n\
         {{id: c-edge, tenant: t-acme, displayName: edge, facts: {{cloud: aws}}}}\n---\n\
         {{id: {cluster}, tenant: {tenant}, displayName: {name}, facts: {{cloud: {text:?}, {fact}: \"1\"}}}}\n",
        tenant = long("t-"),
        cluster = long("c-"),
        name = long("name-"),
        fact = long("fact"),
    );
    let documents = file(&hub, "documents.yaml", &documents)?;
    apply(&hub, &["-f", &documents, "--yes"]).await?.success()?;
    for (name, role) in [("ci", "viewer"), (&long("token-"), "operator")] {
        let token = ["token", "create", name, "--role", role, "--tenant", "acme"];
        hub.cli(token).await?.success()?;
    }
    let renamed = long("another-name-");
    let set = ["cluster", "set", &long("c-"), "--name", &renamed, "--yes"];
    hub.cli(set).await?.success()?;
    let objects = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {}, namespace: {}}}}}\n",
        long("map-"),
        long("space-")
    );
    let objects = file(&hub, "objects.yaml", &objects)?;
    let catalog = ["cluster", "catalog", "set", "c-edge", "-f", &objects];
    hub.cli(catalog).await?.success()?;
    deliver(&hub).await?;
    Ok(hub)
}

/// A bundle, a group and a source with ids of maximal length.
async fn deliver(hub: &Hub) -> anyhow::Result<()> {
    let long = |prefix: &str| prefix.to_owned() + &"x".repeat(63 - prefix.len());
    let folder = hub.dir().join("shop");
    fs::create_dir_all(&folder)?;
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}\n";
    fs::write(folder.join("web.yaml"), map)?;
    let folder = folder.display().to_string();
    let bundle = long("b-");
    let deploy = ["deploy", &folder, "--name", &bundle, "--to", "cloud"];
    let deploy = [&deploy[..], &["--tenant", "acme", "--yes"]].concat();
    hub.cli(deploy).await?.success()?;
    let group = long("g-");
    let selector = format!("cloud notin ({})", long(""));
    let group = ["group", "set", &group, "-l", &selector, "--tenant", "acme"];
    hub.cli(group).await?.success()?;
    let (source, path) = (long("s-"), long(""));
    let url = format!("https://127.0.0.1:1/{path}.git");
    let add = ["source", "add", &source, "--git", &url, "--ref", &path];
    let add = [&add[..], &["--path", &path, "--tenant", "acme"]].concat();
    hub.cli(add).await?.success()?;
    eventually(STEP_DEADLINE, "deployments of the bundle", async || {
        let list = hub.cli(["deployment", "list", "--bundle", &bundle]).await;
        let list = list.ok()?.success().ok()?;
        list.contains("c-edge").then_some(())
    })
    .await?;
    let run = ["run", "create", "c-edge", &bundle, "--kind", "sync"];
    hub.cli(run).await?.success().map(drop)
}

#[tokio::test]
async fn every_table_fits_80_columns_and_breaks_no_cell() -> anyhow::Result<()> {
    let hub = crowded().await?;
    let long = format!("c-{}", "x".repeat(61));
    let bundle = format!("b-{}", "x".repeat(61));
    for (args, whole) in [
        (&["cluster", "list"][..], &["c-edge", &long][..]),
        (&["cluster", "get", &long], &[&long]),
        (&["cluster", "get", "edge"], &["edge", "Never"]),
        (&["cluster", "effective", &long], &["facts.cloud"]),
        (&["cluster", "config", "edge"], &["facts.contactPrefixes"]),
        (&["cluster", "agent", "get", "edge"], &["allowConnect"]),
        (&["cluster", "catalog", "get", "edge"], &["version: 1"]),
        (&["cluster", "token", "list"], &["c-edge", &long]),
        (&["cluster", "compiled"], &["c-edge"]),
        (&["tenant", "list"], &["t-acme"]),
        (&["tenant", "get", "t-acme"], &["t-acme"]),
        (&["token", "list"], &["viewer"]),
        (&["whoami"], &["admin"]),
        (&["facts", &long], &["cloud"]),
        (&["facts", &long, "--since", "1h"], &["people"]),
        (&["find", "fact", "cloud"], &["c-edge", &long]),
        (&["audit"], &["REVISION", "c-edge"]),
        (&["changes"], &["REVISION", "c-edge"]),
        (&["explain"], &["FL-1101"]),
        (&["bundle", "list"], &[&bundle]),
        (&["bundle", "get", &bundle], &[&bundle, "GENERATION"]),
        (&["bundle", "plan", &bundle], &["2 unchanged"]),
        (&["group", "list"], &["g-"]),
        (&["source", "list"], &["s-"]),
        (&["rollout", "list"], &["STATE"]),
        (&["rollout", "status", &bundle], &["WAVE"]),
        (&["deployment", "list"], &["c-edge"]),
        (&["run", "list"], &["run-", "Queued"]),
    ] {
        let shown = within(&hub, args).await?.success()?;
        println!("$ fairlead {}\n{shown}", args.join(" "));
        for line in shown.lines() {
            ensure!(line.chars().count() <= TERMINAL_COLUMNS, "{args:?}: {line}");
        }
        for text in whole {
            ensure!(shown.contains(text), "{args:?} without {text:?}:\n{shown}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn without_a_width_nothing_is_cut_and_wide_has_more_columns() -> anyhow::Result<()> {
    let hub = crowded().await?;
    let whole = hub.cli(["cluster", "list"]).await?.success()?;
    ensure!(!whole.contains('…'), "{whole}");
    let wide = within(&hub, &["cluster", "list", "-o", "wide"])
        .await?
        .success()?;
    ensure!(!wide.contains('…'), "{wide}");
    for column in ["KUBERNETES", "AGENT", "REPLICAS", "RTT", "CONFIG"] {
        ensure!(wide.contains(column), "{column}: {wide}");
        ensure!(!whole.contains(column), "{column}: {whole}");
    }
    Ok(())
}

#[tokio::test]
async fn tables_of_a_connected_cluster_show_its_agent_and_fit_as_well() -> anyhow::Result<()> {
    let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), Hub::start())?;
    let demo = hub.create_cluster("production-eu-west-1").await?;
    for name in ["staging-eu-west-1", "edge-berlin-4711"] {
        hub.cli(["cluster", "create", name]).await?.success()?;
    }
    let mut site = Site::start(&hub, &cluster, &demo).await?;
    let wide = eventually(STEP_DEADLINE, "an agent with a round trip", async || {
        let wide = hub.cli(["cluster", "list", "-o", "wide"]).await.ok()?;
        let wide = wide.success().ok()?;
        let mut lines = wide.lines();
        let is_rtt = |word: &str| word.ends_with("ms");
        let has_rtt = lines.any(|it| it.contains("Connected") && it.split_whitespace().any(is_rtt));
        has_rtt.then_some(wide)
    })
    .await?;
    println!("$ fairlead cluster list -o wide\n{wide}");
    let row = wide.lines().find(|it| it.contains("Connected"));
    let row = row.unwrap_or_default();
    let version = hub.cli(["version", "-o", "jsonpath={.version}"]).await?;
    ensure!(
        row.contains(version.success()?.trim()),
        "no version: {wide}"
    );
    site.process.kill_9()?;
    eventually(STEP_DEADLINE, "a lost cluster", async || {
        let list = hub.cli(["cluster", "list"]).await.ok()?.success().ok()?;
        list.contains("Lost").then_some(())
    })
    .await?;
    let id = demo.id.as_str();
    for args in [
        &["cluster", "list"][..],
        &["cluster", "get", id],
        &["facts", id],
        &["audit", "--cluster", id],
        &["changes"],
    ] {
        let shown = within(&hub, args).await?.success()?;
        println!("$ fairlead {}\n{shown}", args.join(" "));
        let longest = shown.lines().map(|line| line.chars().count()).max();
        ensure!(longest <= Some(TERMINAL_COLUMNS), "{args:?}: {shown}");
    }
    let shown = hub.cli(["cluster", "describe", id]).await?.success()?;
    println!("$ fairlead cluster describe {id}\n{shown}");
    ensure!(shown.contains("State:            Lost since "), "{shown}");
    ensure!(
        shown.contains("\n  Next:             Look at the agent's log"),
        "{shown}"
    );
    Ok(())
}
