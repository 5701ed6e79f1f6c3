//! Returns to earlier content: of a release that does not become ready, and of a hub from a backup.

use std::path::Path;

use anyhow::{Context, ensure};
use fairlead_e2e::{BACKUP_IDENTITY, BACKUP_RECIPIENT, eventually};
use serde_json::Value;

use crate::world::{ROLLOUT_DEADLINE, World};

/// Deployment without a node for its pod: it never becomes ready.
const UNREADY: (&str, &str) = (
    "templates/unready.yaml",
    "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: unready}
spec:
  selector: {matchLabels: {app: unready}}
  template:
    metadata: {labels: {app: unready}}
    spec: {containers: [{name: a, image: a}]}
",
);
const CHART: [(&str, &str); 3] = [
    (
        "fairlead.yaml",
        "namespace: shop\ntimeout: 120s\nhelm: {onFailure: rollback}\ntargets: [{name: all, selector: env=prod}]\n",
    ),
    (
        "Chart.yaml",
        "{apiVersion: v2, name: returned, version: 1.0.0}",
    ),
    (
        "templates/config.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: returned}, data: {color: blue}}",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unready_release_returns_and_hubs_from_backups_remove_nothing() -> anyhow::Result<()> {
    let mut world = World::start(1).await?;
    unready_release_returns(&world).await?;
    hubs_from_backups(&mut world).await
}

async fn unready_release_returns(world: &World) -> anyhow::Result<()> {
    let folder = world.folder("returned", &CHART)?;
    world.deploy(&folder, &[]).await?;
    let red = CHART[2].1.replace("blue", "red");
    // Helm itself has this time, too: for the upgrade, and for the return.
    let short = CHART[0].1.replace("120s", "15s");
    let files = [
        (CHART[0].0, &*short),
        CHART[1],
        (CHART[2].0, &*red),
        UNREADY,
    ];
    world.folder("returned", &files)?;
    let deploy = [
        "deploy",
        &folder,
        "--tenant",
        "t-default",
        "--yes",
        "--wait",
    ];
    let halted = world.run(&deploy).await?;
    ensure!(halted.status.code() == Some(1), "{halted:?}");

    let failed = world.until(0, "b-returned", "Failed").await?;
    ensure!(failed["code"] == "FL-6233", "{failed}");
    let reason = failed["reason"].as_str().unwrap_or_default();
    ensure!(reason.contains("Deployment shop/unready"), "{failed}");
    ensure!(reason.ends_with("; returned to revision 1"), "{failed}");
    let generation = &failed["generation"];
    ensure!(
        (&generation["released"], &generation["applied"]) == (&2.into(), &1.into()),
        "{failed}"
    );
    let member = &world.members[0];
    ensure!(member.field("cm/returned", ".data.color").await? == "blue");
    ensure!(
        member
            .kubectl(&["get", "deployment/unready"])
            .await
            .is_err()
    );
    let states = "jsonpath={.items[*].metadata.labels.status}";
    let get = [
        "get",
        "secrets",
        "-l",
        "owner=helm,name=returned",
        "-o",
        states,
    ];
    let states = member.kubectl(&get).await?;
    ensure!(states == "superseded superseded deployed", "{states}");
    let status = world.run(&["rollout", "status", "b-returned"]).await?;
    ensure!(status.stderr.contains("FL-4126"), "{status:?}");
    Ok(())
}

/// A hub from a backup of the first generation, one from before the bundle, and an empty one.
async fn hubs_from_backups(world: &mut World) -> anyhow::Result<()> {
    let key = world.hub.dir().join("key.txt").display().to_string();
    std::fs::write(&key, BACKUP_IDENTITY)?;
    let (empty, old) = (backup(world, "empty").await?, "old");
    let mut backups = vec![empty];
    for (generation, color) in ["blue", "green", "red"].into_iter().enumerate() {
        let file = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: kept}}\ndata: {{color: {color}}}\n"
        );
        let options = "namespace: shop\ntargets: [{name: all, selector: env=prod}]\n";
        let folder = world.folder("kept", &[("fairlead.yaml", options), ("a.yaml", &file)])?;
        world.deploy(&folder, &[]).await?;
        if generation == 0 {
            backups.push(backup(world, old).await?);
        }
    }
    let before = world.members[0].versions().await?;

    restore(world, &backups[1], &key, &[]).await?;
    let refused = until_code(world, "b-kept", "FL-6305").await?;
    ensure!(refused["state"] == "Blocked", "{refused}");
    unchanged(world, &before).await?;

    restore(world, &backups[0], &key, &[]).await?;
    world.until(0, "b-kept", "Orphaned").await?;
    unchanged(world, &before).await?;

    // The data of the hub is lost, except for its authority: it does not know the agent.
    stop(world).await?;
    let dials = world.members[0].site.dials().await?;
    for file in ["fairlead.db", "fairlead.db-wal", "fairlead.db-shm"] {
        let path = world.hub.data().join(file);
        if path.exists() {
            std::fs::remove_file(path)?;
        }
    }
    world.hub.restart_with(&["--accept-data-loss"]).await?;
    eventually(ROLLOUT_DEADLINE, "two dials", async || {
        let now = world.members[0].site.dials().await.ok()?;
        (now >= dials + 2.0).then_some(())
    })
    .await?;
    unchanged(world, &before).await?;

    restore(world, &backups[1], &key, &["--deliver-again"]).await?;
    let member = &world.members[0];
    member.until_field("cm/kept", ".data.color", "blue").await?;
    // The backup has a ready deployment, too.
    let is_again =
        |it: &Value| it["state"] == "Ready" && it["generation"]["applied"].as_u64() > Some(3);
    world.until_deployment(0, "b-kept", is_again).await?;
    Ok(())
}

async fn on_data(world: &World, args: &[&str]) -> anyhow::Result<()> {
    let data = world.hub.data().display().to_string();
    let done = world.run(&[args, &["--data", &data]].concat()).await?;
    done.success().map(drop)
}

async fn backup(world: &World, name: &str) -> anyhow::Result<String> {
    let file = world.hub.dir().join(Path::new(name).with_extension("age"));
    let file = file.display().to_string();
    on_data(world, &["backup", &file, "--recipient", BACKUP_RECIPIENT]).await?;
    Ok(file)
}

async fn stop(world: &mut World) -> anyhow::Result<()> {
    world.hub.process.term()?;
    world.hub.process.wait(ROLLOUT_DEADLINE).await?;
    Ok(())
}

/// Replaces the data of the hub by a backup.
async fn restore(world: &mut World, file: &str, key: &str, more: &[&str]) -> anyhow::Result<()> {
    stop(world).await?;
    let restore = ["restore", file, "--identity", key, "--keep-access", "--yes"];
    on_data(world, &[&restore, more].concat()).await?;
    world.hub.restart().await?;
    let id = world.members[0].id.clone();
    world.hub.wait_state(&id, "Connected").await
}

async fn until_code(world: &World, bundle: &str, code: &str) -> anyhow::Result<Value> {
    let mut last = Value::Null;
    let get = ["deployment", "get", &world.members[0].id, bundle];
    let found = eventually(ROLLOUT_DEADLINE, code, async || {
        last = world.json(&get).await.ok()?;
        (last["code"] == *code).then(|| last.clone())
    });
    let found = found.await;
    found.with_context(|| format!("{last}; agent: {}", world.log(0)))
}

/// No object was written or deleted.
async fn unchanged(world: &World, before: &str) -> anyhow::Result<()> {
    let after = world.members[0].versions().await?;
    ensure!(after == before, "{before}\n{after}");
    Ok(())
}
