//! Bundles from the command line to the objects of real clusters: hub, agents, runners and Helm are the built programs.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod catalog;
mod charts;
mod git;
mod gitea;
mod kills;
mod maintenance;
mod purged;
mod repositories;
mod returned;
mod secrets;
mod ssh;
mod world;

use anyhow::ensure;
use fairlead_e2e::eventually;
use serde_json::{Value, json};
use world::{ROLLOUT_DEADLINE, World};

const OPTIONS: &str = "namespace: shop\ntargets: [{name: all, selector: env=prod}]\n";
const WEB: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data: {color: blue, cluster: \"${cluster.id}\", home: \"${HOME}\"}
";
const CONFIG: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: NAME}}\n";

const CHART: &[(&str, &str)] = &[
    (
        "fairlead.yaml",
        "namespace: shop\nhelm: {values: {color: blue}}\n",
    ),
    ("Chart.yaml", "{apiVersion: v2, name: web, version: 1.0.0}"),
    (
        "templates/chart.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: chart}\ndata:\n  color: {{ .Values.color }}\n  namespace: {{ (lookup \"v1\" \"Namespace\" \"\" .Release.Namespace).metadata.uid | quote }}\n",
    ),
    (
        "templates/hook.yaml",
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-upgrade, helm.sh/hook-delete-policy: before-hook-creation}}\nspec:\n  completions: 0\n  template:\n    spec: {restartPolicy: Never, containers: [{name: hook, image: hook}]}\n",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folder_and_chart_reach_three_clusters_and_again_change_nothing() -> anyhow::Result<()> {
    let world = World::start(3).await?;
    let folder = world.folder("shop", &[("fairlead.yaml", OPTIONS), ("web.yaml", WEB)])?;
    world.deploy(&folder, &[]).await?;
    for (number, member) in world.members.iter().enumerate() {
        let id = &member.id;
        ensure!(member.field("cm/web", ".data.cluster").await? == *id);
        ensure!(member.field("cm/web", ".data.home").await? == "${HOME}");
        world.until(number, "b-shop", "Ready").await?;
    }
    let chart = world.folder("web", CHART)?;
    let to = ["--to", "env=prod"];
    world.deploy(&chart, &to).await?;
    for member in &world.members {
        ensure!(member.field("cm/chart", ".data.color").await? == "blue");
        let uid = member.field("ns/shop", ".metadata.uid").await?;
        ensure!(member.field("cm/chart", ".data.namespace").await? == uid);
    }

    // The same again: no object is written, and Helm makes no revision.
    let mut before = Vec::new();
    for member in &world.members {
        before.push(member.versions().await?);
    }
    world.deploy(&folder, &[]).await?;
    world.deploy(&chart, &to).await?;
    for (member, before) in world.members.iter().zip(&before) {
        let after = member.versions().await?;
        ensure!(after == *before, "{before}\n{after}");
        ensure!(after.contains("sh.helm.release.v1.web.v1"), "{after}");
        ensure!(!after.contains("sh.helm.release.v1.web.v2"), "{after}");
    }

    compare_before_and_after_an_edit(&world, &folder, &chart).await?;
    world.deploy(&folder, &[]).await?;
    world.deploy(&chart, &to).await?;
    for member in &world.members {
        ensure!(member.field("cm/web", ".data.color").await? == "red");
        ensure!(member.field("cm/chart", ".data.color").await? == "red");
    }

    // Runs have a log; a rollback is a higher generation with the older content.
    let runs = world.json(&["run", "list", "--bundle", "b-web"]).await?;
    let run = runs["items"][0]["id"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    world.run_log(&run, "helm").await?;
    for bundle in ["shop", "web"] {
        world
            .run(&["rollback", bundle, "--yes", "--wait"])
            .await?
            .success()?;
    }
    for (number, member) in world.members.iter().enumerate() {
        ensure!(member.field("cm/web", ".data.color").await? == "blue");
        ensure!(member.field("cm/chart", ".data.color").await? == "blue");
        let deployment = world.until(number, "b-web", "Ready").await?;
        ensure!(deployment["generation"]["applied"] == 3, "{deployment}");
    }
    list_fields_beside(&world).await?;
    charts::changed_by_hand(&world).await
}

/// A field that somebody adds beside those of a bundle is listed, and stays.
async fn list_fields_beside(world: &World) -> anyhow::Result<()> {
    let member = &world.members[0];
    let patch = [
        "patch",
        "configmap",
        "web",
        "--patch",
        r#"{"data":{"extra":"1"}}"#,
    ];
    member.kubectl(&patch).await?;
    let listed = eventually(ROLLOUT_DEADLINE, "fields beside", async || {
        let get = ["deployment", "get", &member.id, "b-shop"];
        let deployment = world.json(&get).await.ok()?;
        let beside = deployment["beside"].as_array()?.first()?.clone();
        Some((deployment["state"] == "Ready", beside))
    });
    let (is_ready, beside) = listed.await?;
    ensure!(
        is_ready && beside["fields"] == json!([".data.extra"]),
        "{beside}"
    );
    ensure!(beside["manager"] == "kubectl-patch", "{beside}");
    ensure!(member.field("cm/web", ".data.extra").await? == "1");
    Ok(())
}

/// Compares both kinds of bundles in the real clusters, before and after an edit of their files.
async fn compare_before_and_after_an_edit(
    world: &World,
    folder: &str,
    chart: &str,
) -> anyhow::Result<()> {
    for (folder, file, text) in [
        (folder, "web.yaml", WEB.replace("blue", "red")),
        (chart, "fairlead.yaml", CHART[0].1.replace("blue", "red")),
    ] {
        let clusters = world.members.iter().flat_map(|it| ["--cluster", &it.id]);
        let diff: Vec<_> = ["diff", folder].into_iter().chain(clusters).collect();
        let same = world.run(&diff).await?;
        ensure!(same.status.code() == Some(0), "{}", same.text());
        std::fs::write(std::path::Path::new(folder).join(file), text)?;
        let changed = world.run(&diff).await?;
        ensure!(changed.status.code() == Some(1), "{}", changed.text());
        ensure!(changed.text().contains("red"), "{}", changed.text());
    }
    // A bundle that does not exist yet.
    let new = world.folder("new", &[("new.yaml", &CONFIG.replace("NAME", "new"))])?;
    let diff = ["diff", &new, "--cluster", &world.members[0].id];
    let changed = world.run(&diff).await?;
    ensure!(changed.status.code() == Some(1), "{}", changed.text());
    ensure!(changed.text().contains(", 1 new,"), "{}", changed.text());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_prune_waits_for_a_person_and_a_removal_is_whole() -> anyhow::Result<()> {
    let world = World::start(1).await?;
    let member = &world.members[0];
    let files =
        ["a", "b", "c", "d"].map(|name| (format!("{name}.yaml"), CONFIG.replace("NAME", name)));
    let mut files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (&**a, &**b)).collect();
    files.push(("fairlead.yaml", OPTIONS));
    let folder = world.folder("shop", &files)?;
    world.deploy(&folder, &[]).await?;

    world.folder("shop", &files[3..])?;
    let deploy = ["deploy", &folder, "--tenant", "t-default", "--yes"];
    world.run(&deploy).await?.success()?;
    let blocked = world.until(0, "b-shop", "Blocked").await?;
    ensure!(blocked["code"] == "FL-6204", "{blocked}");
    let reason = blocked["reason"].to_string();
    for name in ["shop/a", "shop/b", "shop/c"] {
        ensure!(reason.contains(name), "{reason}");
    }
    member.kubectl(&["get", "cm/a", "cm/b", "cm/c"]).await?;
    let confirm = ["deployment", "confirm", &member.id, "b-shop", "--yes"];
    world.run(&confirm).await?.success()?;
    world.until(0, "b-shop", "Ready").await?;
    let left = member.versions().await?;
    ensure!(!left.contains(" a ") && left.contains(" d "), "{left}");

    let delete = ["bundle", "delete", "b-shop", "--remove", "--yes"];
    world.run(&delete).await?.success()?;
    let list = ["deployment", "list", "--cluster", &member.id];
    fairlead_e2e::eventually(world::ROLLOUT_DEADLINE, "no deployment", async || {
        let left = world.json(&list).await.ok()?;
        (left["items"] == Value::Array(Vec::new())).then_some(())
    })
    .await?;
    ensure!(!member.versions().await?.contains(" d "));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_is_repaired_without_the_hub_and_after_a_restart() -> anyhow::Result<()> {
    let mut world = World::start(1).await?;
    let folder = world.folder("shop", &[("fairlead.yaml", OPTIONS), ("web.yaml", WEB)])?;
    world.deploy(&folder, &[]).await?;

    world.hub.process.kill_9()?;
    let member = &mut world.members[0];
    let edit = ["patch", "cm/web", "-p", r#"{"data":{"color":"green"}}"#];
    member.kubectl(&edit).await?;
    member.until_field("cm/web", ".data.color", "blue").await?;
    // A killed agent finds bundle and content in its journal; reports in its memory are lost.
    member.site.process.kill_9()?;
    member.kubectl(&edit).await?;
    member.site.restart()?;
    member.until_field("cm/web", ".data.color", "blue").await?;

    world.hub.restart().await?;
    let id = world.members[0].id.clone();
    world.hub.wait_state(&id, "Connected").await?;
    world.until(0, "b-shop", "Ready").await?;
    let corrections = async || {
        let runs = world
            .json(&["run", "list", "--bundle", "b-shop"])
            .await
            .ok()?;
        let runs = runs["items"].as_array()?;
        let corrections = runs
            .iter()
            .filter(|it| it["origin"] == "drift" && it["state"] == "Succeeded");
        (corrections.count() > 0).then_some(())
    };
    fairlead_e2e::eventually(
        world::ROLLOUT_DEADLINE,
        "report of a correction",
        corrections,
    )
    .await
}
