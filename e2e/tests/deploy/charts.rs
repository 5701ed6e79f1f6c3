//! Charts of well-known programs, as their authors publish them.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, ensure};
use fairlead_e2e::{eventually, helm};
use serde_json::Value;
use tokio::process::Command;

use crate::world::{Member, ROLLOUT_DEADLINE, World};

/// Chart, its values, and a part of its objects' kinds.
///
/// Pods are simulated, so they are ready at once and Jobs of hooks succeed. Nothing answers behind a service: metrics-server's
/// `APIService` would never be available, and it would block each deletion of a namespace. Kyverno keeps its configuration
/// after a removal, unless `preserve` is off.
const CHARTS: [(&str, &str, &[&str]); 3] = [
    (
        "metrics-server",
        "{apiService: {create: false}}",
        &["Deployment", "ClusterRole", "RoleBinding"],
    ),
    (
        "external-dns",
        "{provider: {name: inmemory}}",
        &["Deployment", "ClusterRole", "Service"],
    ),
    (
        "kyverno",
        "{config: {preserve: false}}",
        &["Deployment", "CustomResourceDefinition", "ConfigMap"],
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_charts_are_deployed_repeated_and_removed() -> anyhow::Result<()> {
    let charts = charts().await?;
    let world = World::start_with_pods().await?;
    let mut folders = Vec::new();
    for (chart, values, kinds) in CHARTS {
        let folder = world.hub.dir().join(chart);
        copy(&charts.join(chart), &folder).await?;
        let options = format!(
            "namespace: shop\nhelm: {{values: {values}}}\ntargets: [{{name: all, selector: env=prod}}]\n"
        );
        std::fs::write(folder.join("fairlead.yaml"), options)?;
        let folder = folder.display().to_string();
        world.deploy(&folder, &[]).await?;
        let member = &world.members[0];
        let bundle = format!("b-{chart}");
        let ready = world.until(0, &bundle, "Ready").await?;
        let objects = helm_of(member, &["get", "manifest", chart]).await?;
        for kind in kinds {
            ensure!(objects.contains(&format!("\nkind: {kind}\n")), "{kind}");
        }
        let total = ready["objects"]["total"].as_u64();
        let expected = objects
            .lines()
            .filter(|it| it.starts_with("kind: "))
            .count();
        ensure!(total == Some(expected as u64), "{expected}: {ready}");
        let labels = release_labels(member, chart).await?;
        ensure!(labels.len() == 1, "{labels:?}");
        ensure!(labels[0]["status"] == "deployed", "{labels:?}");
        ensure!(labels[0]["fairlead-bundle"] == *bundle, "{labels:?}");
        let run = labels[0]["fairlead-run"].as_str().unwrap_or_default();
        ensure!(run.starts_with("run-"), "{labels:?}");
        folders.push(folder);
    }
    // The same again: Helm makes no revision, and nobody writes one.
    let before = world.members[0].versions().await?;
    for folder in &folders {
        world.deploy(folder, &[]).await?;
    }
    let after = world.members[0].versions().await?;
    ensure!(after == before, "{before}\n{after}");
    for (chart, ..) in CHARTS {
        remove(&world, chart).await?;
    }
    Ok(())
}

/// A person's Helm rolls a release back, then removes it. Each time the content of its bundle is the next revision.
pub(crate) async fn changed_by_hand(world: &World) -> anyhow::Result<()> {
    let member = &world.members[0];
    let corrected = async |earlier: usize| {
        let found = eventually(ROLLOUT_DEADLINE, "a revision of a run", async || {
            let labels = release_labels(member, "web").await.ok()?;
            let newest = labels.iter().max_by_key(|it| {
                it["version"]
                    .as_str()
                    .and_then(|it| it.parse::<usize>().ok())
            })?;
            let number: usize = newest["version"].as_str()?.parse().ok()?;
            (number > earlier && newest["status"] == "deployed").then_some(())
        });
        found.await?;
        ensure!(member.field("cm/chart", ".data.color").await? == "blue");
        world.until(0, "b-web", "Ready").await
    };
    let before = release_labels(member, "web").await?.len();
    helm_of(member, &["rollback", "web", "2"]).await?;
    corrected(before + 1).await?;
    // The agent registers its runs independently of its reports.
    eventually(ROLLOUT_DEADLINE, "a run of a correction", async || {
        let list = ["run", "list", "--bundle", "b-web"];
        let runs = world.json(&list).await.ok()?;
        let mut runs = runs["items"].as_array()?.iter();
        runs.any(|it| it["origin"] == "drift").then_some(())
    })
    .await?;
    helm_of(member, &["uninstall", "web"]).await?;
    corrected(0).await?;
    Ok(())
}

/// Removes a bundle, and checks that no object of its release is left.
async fn remove(world: &World, chart: &str) -> anyhow::Result<()> {
    let member = &world.members[0];
    let objects = world.hub.dir().join(format!("{chart}.objects"));
    std::fs::write(
        &objects,
        helm_of(member, &["get", "manifest", chart]).await?,
    )?;
    let bundle = format!("b-{chart}");
    let delete = ["bundle", "delete", &bundle, "--remove", "--yes"];
    world.run(&delete).await?.success()?;
    let mut last = Value::Null;
    let gone = eventually(ROLLOUT_DEADLINE, "no deployment", async || {
        let list = ["deployment", "list", "--cluster", &member.id];
        last = world.json(&list).await.ok()?;
        let mut left = last["items"].as_array()?.iter();
        left.all(|it| it["bundle"] != *bundle).then_some(())
    });
    gone.await.with_context(|| last.to_string())?;
    ensure!(release_labels(member, chart).await?.is_empty());
    let path = objects.display().to_string();
    let get = ["get", "--ignore-not-found", "-o", "json", "-f", &path];
    let left = member.kubectl(&get).await?;
    if left.is_empty() {
        return Ok(());
    }
    // Custom resource definitions end when the API server's controller has deleted their objects. It backs off after an error,
    // so that its end has no bound that a test could wait for.
    let left: Value = serde_json::from_str(&left)?;
    // One object is not printed as a list.
    let items = left["items"].as_array().cloned();
    for object in items.unwrap_or_else(|| vec![left]) {
        let ending = object["metadata"]["deletionTimestamp"].is_string();
        ensure!(
            ending && object["kind"] == "CustomResourceDefinition",
            "{object}"
        );
    }
    Ok(())
}

/// Labels of Helm's records of a release.
async fn release_labels(member: &Member, release: &str) -> anyhow::Result<Vec<Value>> {
    let selector = format!("owner=helm,name={release}");
    let get = ["get", "secrets", "-l", &selector, "-o", "json"];
    let list: Value = serde_json::from_str(&member.kubectl(&get).await?)?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let labels = items.into_iter().map(|it| it["metadata"]["labels"].clone());
    Ok(labels.collect())
}

/// Output of a person's Helm in the namespace of the bundles.
async fn helm_of(member: &Member, args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(helm::program()?)
        .args(args)
        .args(["-n", "shop", "--kubeconfig"])
        .arg(member.cluster.kubeconfig())
        // Helm keeps the kinds of a cluster there by its port, which another cluster may have had.
        .env("HOME", member.cluster.dir().join("helm"))
        .stdin(Stdio::null())
        .output()
        .await?;
    ensure!(output.status.success(), "helm {args:?}: {output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Folder with a folder for each chart.
async fn charts() -> anyhow::Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/build");
    let built = Command::new(script).stderr(Stdio::inherit()).output();
    let built = built.await?;
    ensure!(built.status.success(), "charts/build failed");
    Ok(PathBuf::from(String::from_utf8(built.stdout)?.trim()))
}

async fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let copied = Command::new("cp").arg("-r").args([from, to]).status();
    ensure!(copied.await?.success(), "cp {}", from.display());
    Ok(())
}
