//! Objects that content or somebody else takes away: renamed, moved, half of all, none left, with their namespace or kind.

use anyhow::ensure;
use fairlead_api::delivery::DeploymentState;
use fairlead_delivery_agent::kube::Propagation;

use crate::{DEFINITION, NAMESPACE, THING, world::World};

fn path(name: &str) -> String {
    format!("/api/v1/namespaces/shop/configmaps/{name}")
}

fn file(names: &[&str]) -> String {
    let object =
        |name: &&str| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    names.iter().map(object).collect()
}

/// Releases a generation with these objects.
fn release(world: &World, bundle: &str, generation: u64, names: &[&str], adopt: bool) {
    let files = [("a.yaml", &*file(names))];
    let etag = world
        .hub
        .release(bundle, generation, &files, |spec| spec.adopt = adopt);
    world.probe(etag);
}

async fn exist(world: &World, names: &[&str], is_expected: bool) -> anyhow::Result<()> {
    for name in names {
        let found = world.client.get(&path(name)).await?.is_some();
        ensure!(found == is_expected, "{name}: {found}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_objects_that_the_content_lacks_are_deleted() -> anyhow::Result<()> {
    let world = World::start().await?;
    tokio::try_join!(renamed(&world), moved(&world), emptied(&world))?;
    Ok(())
}

/// A renamed object is a new one, and half of all may go.
async fn renamed(world: &World) -> anyhow::Result<()> {
    release(world, "b-name", 1, &["n1", "n2", "n3", "n4"], false);
    world.until_ready("b-name", 1).await?;
    release(world, "b-name", 2, &["n1", "n2", "n5"], false);
    world.until_ready("b-name", 2).await?;
    exist(world, &["n1", "n2", "n5"], true).await?;
    exist(world, &["n3", "n4"], false).await
}

/// An object moves between bundles: the old one keeps what the new one has taken over.
async fn moved(world: &World) -> anyhow::Result<()> {
    release(world, "b-from", 1, &["m1", "m2", "m3"], false);
    world.until_ready("b-from", 1).await?;
    let before = world.get(&path("m1")).await?;
    release(world, "b-to", 1, &["m1", "m4"], false);
    let is_refused =
        |report: &fairlead_api::delivery::DeploymentReport| report.state == DeploymentState::Failed;
    let refused = world.until_report("b-to", is_refused).await?;
    let reason = refused.reason.unwrap_or_default();
    ensure!(
        reason.contains("ConfigMap shop/m1") && reason.contains("b-from"),
        "{reason}"
    );
    release(world, "b-to", 2, &["m1", "m4"], true);
    world.until_ready("b-to", 2).await?;
    release(world, "b-from", 2, &["m2", "m3"], false);
    world.until_ready("b-from", 2).await?;
    let after = world.get(&path("m1")).await?;
    ensure!(
        after["metadata"]["uid"] == before["metadata"]["uid"],
        "{after}"
    );
    ensure!(
        after["metadata"]["labels"]["fairlead/bundle"] == "b-to",
        "{after}"
    );
    // The same for the removal of the old bundle.
    world.probe(world.hub.bury("b-from", 3));
    world.until_absent(&path("m2")).await?;
    world
        .until_absent("/api/v1/namespaces/fairlead-delivery/secrets/release-b-from")
        .await?;
    exist(world, &["m1", "m4"], true).await
}

/// A folder without an object deletes nothing before a person confirms.
async fn emptied(world: &World) -> anyhow::Result<()> {
    release(world, "b-empty", 1, &["e1", "e2"], false);
    world.until_ready("b-empty", 1).await?;
    release(world, "b-empty", 2, &[], false);
    let is_blocked = |report: &fairlead_api::delivery::DeploymentReport| {
        report.code.as_deref() == Some("FL-6204")
    };
    let blocked = world.until_report("b-empty", is_blocked).await?;
    ensure!(blocked.state == DeploymentState::Blocked, "{blocked:?}");
    exist(world, &["e1", "e2"], true).await
}

/// Somebody deletes the kind and the namespace of objects: both are made again. Content without them is blocked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "waits two minutes for retries: `make kills`"]
async fn kind_and_namespace_that_somebody_deletes_come_back() -> anyhow::Result<()> {
    let world = World::start().await?;
    let thing = "/apis/example.org/v1/namespaces/extra/things/one";
    let files = [
        ("a.yaml", NAMESPACE),
        ("b.yaml", DEFINITION),
        ("c.yaml", THING),
    ];
    world.probe(world.hub.release("b-kind", 1, &files, |_| {}));
    world.until_ready("b-kind", 1).await?;
    for place in [
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.org",
        "/api/v1/namespaces/extra",
    ] {
        let old = world.get(thing).await?["metadata"]["uid"].clone();
        world
            .client
            .delete(place, None, Propagation::Background)
            .await?;
        world.until_other(thing, &old).await?;
    }
    world.probe(world.hub.release("b-kind", 2, &files[..1], |_| {}));
    let is_blocked = |report: &fairlead_api::delivery::DeploymentReport| {
        report.code.as_deref() == Some("FL-6204")
    };
    let blocked = world.until_report("b-kind", is_blocked).await?;
    let reason = blocked.reason.unwrap_or_default();
    ensure!(
        reason.contains("CustomResourceDefinition things.example.org"),
        "{reason}"
    );
    world.get(thing).await.map(drop)
}
