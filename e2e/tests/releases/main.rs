//! The executor of Helm charts against a real API server with the real Helm: outcomes, failures, kills, takeovers.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    clippy::expect_used,
    reason = "a test may panic, and waits for one future at a time"
)]

mod charts;
mod failures;
mod kills;
mod leftovers;
mod world;

use std::{fs, sync::Arc};

use anyhow::{Context, ensure};
use charts::{SHOP, shop_with};
use fairlead_api::{
    Code,
    delivery::{CrdPolicy, DriftPolicy, IgnoreRule, RunOrigin},
};
use fairlead_delivery_agent::engine::{FailureClass, SiteLimits};
use fairlead_runner::spec_label;
use serde_json::json;
use world::{Deployment, World};

#[tokio::test]
async fn release_follows_its_spec_and_is_removed() -> anyhow::Result<()> {
    let world = World::start().await?;
    install_and_repeat(&world).await?;
    rotate_a_secret(&world).await?;
    ignored_fields(&world).await?;
    foreign_revisions(&world).await?;
    definitions(&world).await?;
    limits_of_the_site(&world).await?;
    failures::of_charts(&world).await?;
    failures::roll_back(&world).await?;
    failures::roll_back_unready(&world).await?;
    failures::roll_back_with_live_values(&world).await?;
    world.end().await
}

async fn install_and_repeat(world: &World) -> anyhow::Result<()> {
    let mut shop = world.deployment("b-shop", SHOP, json!({"text": "one", "number": 3}))?;
    let applied = world.synced(&mut shop).await?;
    let objects: Vec<_> = applied
        .objects
        .iter()
        .map(|it| it.key.to_string())
        .collect();
    ensure!(
        objects == ["ConfigMap shop/settings", "Deployment shop/web"],
        "{objects:?}"
    );
    ensure!(applied.inventory.len() == 2);
    let history = world.history("shop").await?;
    ensure!(history.len() == 1 && history[0].is_by_run());
    ensure!(history[0].bundle.as_deref() == Some("b-shop"));
    ensure!(history[0].spec == Some(spec_label(&shop.spec_id())));
    // `lookup` sees the cluster.
    let uid = [
        "get",
        "configmap",
        "settings",
        "-o",
        "jsonpath={.data.namespace}",
    ];
    ensure!(world.kubectl(&uid).await?.len() == 36);

    let version = world.kubectl(&[
        "get",
        "secrets",
        "-o",
        "jsonpath={.items[*].metadata.resourceVersion}",
    ]);
    let before = version.await?;
    world.synced(&mut shop).await?;
    // An order of a person for the same content makes no revision either.
    shop.origin = RunOrigin::Command;
    world.synced(&mut shop).await?;
    let version = world.kubectl(&[
        "get",
        "secrets",
        "-o",
        "jsonpath={.items[*].metadata.resourceVersion}",
    ]);
    ensure!(version.await? == before, "a repeated run wrote a record");

    shop.set_value("text", "two");
    world.synced(&mut shop).await?;
    let states = world.revisions("shop").await?;
    ensure!(states == [(1, "superseded"), (2, "deployed")], "{states:?}");
    world.remove(&mut shop).await?;
    ensure!(world.history("shop").await?.is_empty());
    ensure!(
        world
            .kubectl(&["get", "configmap", "settings"])
            .await
            .is_err()
    );
    // Again: a release that is gone is no failure.
    world.remove(&mut shop).await
}

async fn rotate_a_secret(world: &World) -> anyhow::Result<()> {
    const CANARY: &str = "canary-hunter2";
    let mut shop = world.deployment("b-rotated", SHOP, json!({"text": "one"}))?;
    shop.options().release = Some("rotated".to_owned());
    shop.set_value("name", "rotated");
    shop.secrets.values = vec![("secret.token".to_owned(), CANARY.into())];
    world.synced(&mut shop).await?;
    shop.secrets.values = vec![("secret.token".to_owned(), "canary-rotated".into())];
    world.synced(&mut shop).await?;
    let states = world.revisions("rotated").await?;
    ensure!(states == [(1, "superseded"), (2, "deployed")], "{states:?}");
    let token = [
        "get",
        "secret",
        "rotated-token",
        "-o",
        "jsonpath={.data.token}",
    ];
    ensure!(world.kubectl(&token).await? == "Y2FuYXJ5LXJvdGF0ZWQ=");
    world.remove(&mut shop).await
}

/// Ignores two fields of a release, applies it, and sets both fields by kubectl.
pub(crate) async fn with_live_values(
    world: &World,
    shop: &mut Deployment,
    name: &str,
) -> anyhow::Result<()> {
    let rule = |kind: &str, pointer: &str| IgnoreRule {
        kind: Some(kind.to_owned()),
        group: None,
        name: None,
        namespace: None,
        pointers: vec![pointer.to_owned()],
    };
    shop.spec.ignore = vec![
        rule("Deployment", "/spec/replicas"),
        rule("ConfigMap", "/data/text"),
    ];
    world.synced(shop).await?;
    let scale = ["scale", "deployment", name, "--replicas=5"];
    world.kubectl(&scale).await?;
    let edit = r#"--patch={"data":{"text":"live"}}"#;
    let edit = ["patch", "configmap", name, "--type=merge", edit];
    world.kubectl(&edit).await?;
    Ok(())
}

/// Fields that others may change keep their live values through upgrades, without a moment in between.
async fn ignored_fields(world: &World) -> anyhow::Result<()> {
    let values = json!({"name": "scaled", "replicas": 2, "text": "one"});
    let mut shop = world.deployment("b-scaled", SHOP, values)?;
    with_live_values(world, &mut shop, "scaled").await?;
    let deployment = "jsonpath={.metadata.generation} {.spec.replicas}";
    let deployment = ["get", "deployment", "scaled", "-o", deployment];
    ensure!(world.kubectl(&deployment).await? == "2 5");

    // New content changes the fields, too; the live values stay, and the generation proves that none was reset.
    shop.set_value("text", "two");
    shop.set_value("replicas", 3);
    let (result, log) = world.sync(&mut shop).await?;
    result.with_context(|| format!("the log: {log}"))?;
    ensure!(
        log.contains("Deployment shop/scaled keeps its live value of /spec/replicas"),
        "{log}"
    );
    ensure!(world.kubectl(&deployment).await? == "2 5");
    let text = ["get", "configmap", "scaled", "-o", "jsonpath={.data.text}"];
    ensure!(world.kubectl(&text).await? == "live");
    let states = world.revisions("scaled").await?;
    ensure!(states == [(1, "superseded"), (2, "deployed")], "{states:?}");
    // Again: nothing changes.
    world.synced(&mut shop).await?;
    ensure!(world.revisions("scaled").await? == states);

    // Without the rule the other manager's value is a conflict.
    shop.spec.ignore.clear();
    world
        .kubectl(&["scale", "deployment", "scaled", "--replicas=7"])
        .await?;
    let failure = world.failed(&mut shop).await?;
    ensure!(failure.code == Code::HelmFieldConflict, "{failure:?}");
    world.remove(&mut shop).await
}

async fn foreign_revisions(world: &World) -> anyhow::Result<()> {
    let chart = tempfile::tempdir()?;
    let path = chart.path().to_str().expect("a path").to_owned();
    fs::write(
        chart.path().join("Chart.yaml"),
        "{apiVersion: v2, name: shop, version: 2.0.0}",
    )?;
    world.helm_by_hand(&["install", "taken", &path]).await?;
    let mut shop = world.deployment("b-taken", SHOP, json!({"name": "taken"}))?;
    let failure = world.failed(&mut shop).await?;
    ensure!(
        (failure.class, failure.code) == (FailureClass::Permanent, Code::HelmForeignRevision),
        "{failure:?}"
    );
    ensure!(
        world.remove(&mut shop).await.is_err(),
        "somebody else's release stays"
    );
    shop.spec.adopt = true;
    world.synced(&mut shop).await?;

    // A person upgrades our release: Helm copies our labels into that revision.
    world.helm_by_hand(&["upgrade", "taken", &path]).await?;
    shop.spec.drift = DriftPolicy::Report;
    world.synced(&mut shop).await?;
    world.helm_by_hand(&["upgrade", "taken", &path]).await?;
    let failure = world.failed(&mut shop).await?;
    ensure!(failure.code == Code::HelmForeignRevision, "{failure:?}");
    ensure!(
        failure.sentence.contains("revision 5 is somebody else's"),
        "{failure}"
    );
    shop.origin = RunOrigin::Command;
    world.synced(&mut shop).await?;
    let newest = world.history("taken").await?.pop();
    ensure!(newest.is_some_and(|it| it.number == 6 && it.is_by_run()));
    world.remove(&mut shop).await
}

async fn definitions(world: &World) -> anyhow::Result<()> {
    let boats = |fields: &[&str]| {
        let fields = fields
            .iter()
            .map(|field| ((*field).to_owned(), json!({"type": "string"})));
        let fields: serde_json::Map<String, serde_json::Value> = fields.collect();
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "boats.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "boats", "kind": "Boat"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {"type": "object", "properties": fields}},
                }}}],
            },
        });
        definition.to_string()
    };
    let boat = "{apiVersion: example.com/v1, kind: Boat, metadata: {name: a}, spec: {sail: red}}";
    let first = boats(&["sail"]);
    let files = |definition: &str| {
        shop_with(&[
            ("crds/boats.yaml", definition),
            ("templates/boat.yaml", boat),
        ])
    };
    let mut shop = world.deployment_of("b-boats", files(&first), json!({"name": "boats"}))?;
    shop.options().crds = CrdPolicy::Skip;
    let failure = world.failed(&mut shop).await?;
    ensure!(
        (failure.class, failure.code) == (FailureClass::Waiting, Code::DeploymentWaits),
        "{failure:?}"
    );
    ensure!(
        failure.sentence.contains("Boat (example.com/v1)"),
        "{failure}"
    );
    shop.options().crds = CrdPolicy::Create;
    world.synced(&mut shop).await?;
    let second = boats(&["sail", "flag"]);
    shop.set_files(files(&second))?;
    let schema = [
        "get",
        "crd",
        "boats.example.com",
        "-o",
        "jsonpath={.spec.versions[0].schema}",
    ];
    world.synced(&mut shop).await?;
    ensure!(
        !world.kubectl(&schema).await?.contains("flag"),
        "an existing definition stays"
    );
    shop.options().crds = CrdPolicy::Replace;
    world.synced(&mut shop).await?;
    ensure!(world.kubectl(&schema).await?.contains("flag"));
    world.remove(&mut shop).await?;
    ensure!(
        world.kubectl(&schema).await.is_ok(),
        "definitions stay after a removal"
    );
    Ok(())
}

async fn limits_of_the_site(world: &World) -> anyhow::Result<()> {
    let mut shop = world.deployment("b-limited", SHOP, json!({"name": "limited"}))?;
    let limits = json!({"data": {"kinds": "ConfigMap, Secret"}});
    shop.site = Arc::new(SiteLimits::of(Some(&limits)));
    let failure = world.failed(&mut shop).await?;
    ensure!(failure.code == Code::SiteForbids, "{failure:?}");
    ensure!(failure.sentence.contains("Deployment"), "{failure}");
    ensure!(world.history("limited").await?.is_empty());
    let mut own = world.deployment("b-own", SHOP, json!({}))?;
    own.spec.namespace = "fairlead-delivery".to_owned();
    ensure!(world.failed(&mut own).await?.code == Code::SiteForbids);
    Ok(())
}
