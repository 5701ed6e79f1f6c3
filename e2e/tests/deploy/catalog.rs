//! The catalog of a cluster as its deployment `catalog`.

use anyhow::ensure;

use crate::world::World;

const OBJECTS: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: color, namespace: shop}
data: {color: blue}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn catalog_reaches_its_cluster_and_its_end_keeps_the_objects() -> anyhow::Result<()> {
    let world = World::start(2).await?;
    let (first, second) = (&world.members[0], &world.members[1]);
    for member in [first, second] {
        set(&world, &member.id, OBJECTS).await?;
    }
    let noted = set(&world, &first.id, OBJECTS).await?;
    ensure!(noted.contains("--deliver-catalog"), "{noted}");
    let enable = ["cluster", "set", &first.id, "--deliver-catalog"];
    world.run(&enable).await?.success()?;
    world.until(0, "catalog", "Ready").await?;
    let color = async || first.field("cm/color", ".data.color").await;
    ensure!(color().await? == "blue");

    set(&world, &first.id, &OBJECTS.replace("blue", "red")).await?;
    fairlead_e2e::eventually(crate::ROLLOUT_DEADLINE, "a red catalog", async || {
        (color().await.ok()? == "red").then_some(())
    })
    .await?;
    let there = second.field("cm/color", ".data.color").await;
    ensure!(there.is_err(), "not enabled");

    let delete = [
        "bundle",
        "delete",
        &format!("b-catalog-{}", first.id),
        "--yes",
    ];
    let refused = world.run(&delete).await?;
    ensure!(refused.stderr.contains("FL-6112"), "{}", refused.stderr);
    let end = ["cluster", "set", &first.id, "--deliver-catalog=false"];
    world.run(&end).await?.success()?;
    let list = ["bundle", "list"];
    fairlead_e2e::eventually(crate::ROLLOUT_DEADLINE, "no bundle", async || {
        let bundles = world.json(&list).await.ok()?;
        bundles["items"].as_array()?.is_empty().then_some(())
    })
    .await?;
    ensure!(color().await? == "red", "the objects stay");
    Ok(())
}

/// Sets the catalog, and returns the notes.
async fn set(world: &World, cluster: &str, objects: &str) -> anyhow::Result<String> {
    let folder = world.folder("objects", &[("objects.yaml", objects)])?;
    let file = format!("{folder}/objects.yaml");
    let set = ["cluster", "catalog", "set", cluster, "-f", &file, "--yes"];
    let done = world.run(&set).await?;
    let noted = done.stderr.clone();
    done.success()?;
    Ok(noted)
}
