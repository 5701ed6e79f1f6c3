//! `agent uninstall --purge` without hub and agent: manifests and a Helm release go, objects of others stay.

use anyhow::ensure;

use crate::{CHART, OPTIONS, WEB, world::World};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purge_removes_bundles_and_releases_and_keeps_objects_of_others() -> anyhow::Result<()> {
    let mut world = World::start(1).await?;
    let folder = world.folder("shop", &[("fairlead.yaml", OPTIONS), ("web.yaml", WEB)])?;
    world.deploy(&folder, &[]).await?;
    let chart = world.folder("web", CHART)?;
    world.deploy(&chart, &["--to", "env=prod"]).await?;
    world.members[0].site.process.kill_9()?;
    world.hub.process.kill_9()?;
    let member = &world.members[0];
    let versions = member.versions().await?;
    ensure!(versions.contains("sh.helm.release.v1.web.v1"), "{versions}");
    member.kubectl(&["create", "configmap", "mine"]).await?;
    // Somebody has taken the object over.
    let label = [
        "label",
        "configmap",
        "web",
        "fairlead/bundle=b-other",
        "--overwrite",
    ];
    member.kubectl(&label).await?;

    let kubeconfig = member.cluster.kubeconfig().display().to_string();
    let uninstall = [
        "agent",
        "uninstall",
        "--kubeconfig",
        &kubeconfig,
        "--purge",
        "--yes",
    ];
    let done = world.run(&uninstall).await?.success()?;
    ensure!(done.contains("Deleted ConfigMap shop/chart."), "{done}");
    ensure!(
        done.contains("Deleted the records of Helm release shop/web."),
        "{done}"
    );
    ensure!(
        done.contains("Kept ConfigMap shop/web belongs to bundle b-other."),
        "{done}"
    );
    let left = member
        .kubectl(&["get", "configmaps,secrets", "-o", "name"])
        .await?;
    let left: Vec<&str> = left.lines().collect();
    ensure!(
        left == [
            "configmap/kube-root-ca.crt",
            "configmap/mine",
            "configmap/web"
        ],
        "{left:?}"
    );
    Ok(())
}
