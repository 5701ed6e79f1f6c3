//! Failures of charts, each with its code and its sentence.

use anyhow::{Context, ensure};
use fairlead_api::{
    Code,
    delivery::{ConflictPolicy, HelmFailure},
};
use fairlead_delivery_agent::engine::{Executor, FailureClass, RunFailure};
use serde_json::{Value, json};

use super::{
    charts::{EXTRA, SHOP, shop_with},
    with_live_values,
    world::World,
};

/// Paths and contents of a bundle.
type Files = Vec<(String, Vec<u8>)>;

/// Faults that are found before anything is written.
pub(crate) async fn of_charts(world: &World) -> anyhow::Result<()> {
    let faulty = |path: &'static str, content: &'static str| shop_with(&[(path, content)]);
    let cases: [(&str, Files, Value, Code, &str); 5] = [
        (
            "schema",
            shop_with(&[]),
            json!({"number": "many"}),
            Code::HelmValuesRefused,
            "value number of chart shop: got string, want integer",
        ),
        (
            "template",
            faulty(
                "templates/bad.yaml",
                "a: {{ required \"a tenant is needed\" .Values.tenant }}",
            ),
            json!({}),
            Code::HelmTemplateFailed,
            "shop/templates/bad.yaml:1:6: a tenant is needed",
        ),
        (
            "syntax",
            faulty("templates/bad.yaml", "a: [}"),
            json!({}),
            Code::HelmTemplateFailed,
            "shop/templates/bad.yaml: yaml: ",
        ),
        (
            "version",
            faulty(
                "Chart.yaml",
                "{apiVersion: v2, name: shop, version: 1.0.0, kubeVersion: '>=9'}",
            ),
            json!({}),
            Code::HelmKubernetesVersion,
            "the chart needs Kubernetes >=9, the cluster has Kubernetes v1.",
        ),
        (
            "missing",
            faulty(
                "Chart.yaml",
                "{apiVersion: v2, name: shop, version: 1.0.0, dependencies: [{name: redis, version: 1.0.0, repository: 'https://x.example'}]}",
            ),
            json!({}),
            Code::HelmChartInvalid,
            "the chart lacks its dependencies redis",
        ),
    ];
    for (name, files, values, code, sentence) in cases {
        let files = files.into_iter().rev();
        let mut seen = std::collections::BTreeSet::new();
        let files = files
            .filter(|(path, _)| seen.insert(path.clone()))
            .collect();
        let mut shop = world.deployment_of(&format!("b-{name}"), files, values)?;
        let failure = world.failed(&mut shop).await?;
        ensure!(
            (failure.code, failure.class) == (code, FailureClass::Permanent),
            "{name}: {failure:?}"
        );
        let expected = format!("Helm release shop/{name}: {sentence}");
        ensure!(failure.sentence.starts_with(&expected), "{name}: {failure}");
        ensure!(
            world.history(name).await?.is_empty(),
            "{name} wrote a record"
        );
    }
    refused_objects(world).await
}

/// Refusals of the API server.
async fn refused_objects(world: &World) -> anyhow::Result<()> {
    world.kubectl(&["create", "configmap", "owned"]).await?;
    let mut owned = world.deployment("b-owned", SHOP, json!({"name": "owned"}))?;
    let failure = world.failed(&mut owned).await?;
    ensure!(failure.code == Code::HelmObjectOwned, "{failure:?}");
    ensure!(
        failure.sentence
            == "Helm release shop/owned: ConfigMap shop/owned exists already, and belongs to no release",
        "{failure}"
    );
    owned.options().take_ownership = true;
    world.synced(&mut owned).await?;

    owned.set_value("selector", "other");
    let failure = world.failed(&mut owned).await?;
    ensure!(
        (failure.code, failure.class) == (Code::HelmFieldImmutable, FailureClass::Permanent),
        "{failure:?}"
    );
    ensure!(
        failure.sentence.contains("Deployment") && failure.sentence.contains("owned"),
        "{failure}"
    );

    owned.set_value("selector", "web");
    let set = "--field-manager=editor";
    let patch = r#"{"data":{"text":"edited"}}"#;
    world
        .kubectl(&["patch", "configmap", "owned", set, "-p", patch])
        .await?;
    owned.set_value("text", "new");
    let failure = world.failed(&mut owned).await?;
    ensure!(failure.code == Code::HelmFieldConflict, "{failure:?}");
    ensure!(
        failure
            .sentence
            .contains("ConfigMap shop/owned: editor holds .data.text"),
        "{failure}"
    );
    owned.spec.conflicts = ConflictPolicy::Force;
    world.synced(&mut owned).await?;
    let text = ["get", "configmap", "owned", "-o", "jsonpath={.data.text}"];
    ensure!(world.kubectl(&text).await? == "new");
    Ok(())
}

/// Hooks that work and fail, and the return to the last good revision.
pub(crate) async fn roll_back(world: &World) -> anyhow::Result<()> {
    let mut shop =
        world.deployment("b-hooked", SHOP, json!({"name": "hooked", "hook": "works"}))?;
    world.synced(&mut shop).await?;
    shop.set_value("hook", "fails");
    let failure = world.failed(&mut shop).await?;
    ensure!(
        (failure.code, failure.class) == (Code::HelmHookFailed, FailureClass::Retry),
        "{failure:?}"
    );
    let start = "Helm release shop/hooked: hook Job shop/hooked-hook (pre-upgrade) failed: ";
    ensure!(failure.sentence.starts_with(start), "{failure}");
    let states = world.revisions("hooked").await?;
    ensure!(states == [(1, "deployed"), (2, "failed")], "{states:?}");

    shop.set_value("hook", "");
    shop.set_value("text", "better");
    world.synced(&mut shop).await?;
    shop.options().on_failure = HelmFailure::Rollback;
    shop.set_value("hook", "fails");
    let failure = world.failed(&mut shop).await?;
    ensure!(
        (failure.code, failure.class) == (Code::HelmRolledBack, FailureClass::Permanent),
        "{failure:?}"
    );
    ensure!(
        failure.sentence.ends_with("; returned to revision 3"),
        "{failure}"
    );
    let states = world.revisions("hooked").await?;
    ensure!(
        states[2..] == [(3, "superseded"), (4, "failed"), (5, "deployed")],
        "{states:?}"
    );
    // The next content goes on top of the rollback.
    shop.set_value("hook", "works");
    world.synced(&mut shop).await?;
    Ok(())
}

/// Return from content that Helm has deployed, and whose objects do not become ready.
pub(crate) async fn roll_back_unready(world: &World) -> anyhow::Result<()> {
    let values = json!({"name": "unready", "text": "good"});
    let mut shop = world.deployment("b-unready", SHOP, values)?;
    shop.options().on_failure = HelmFailure::Rollback;
    world.synced(&mut shop).await?;
    shop.set_value("text", "bad");
    let attempt = world.begin(&mut shop, 1).await?;
    world.executor.sync(&attempt.context).await?;
    let class = FailureClass::Permanent;
    let unready = RunFailure::new(class, Code::NotReadyInTime, "Deployment shop/unready waits");
    let failure = world
        .executor
        .roll_back(&attempt.context, unready.clone())
        .await;
    let failure = failure.context("there is a good revision")?;
    world.finish(&shop, attempt, false).await?;
    ensure!(
        (failure.code, failure.class) == (Code::HelmRolledBack, FailureClass::Permanent),
        "{failure:?}"
    );
    ensure!(
        failure.sentence == "Deployment shop/unready waits; returned to revision 1",
        "{failure}"
    );
    let states = world.revisions("unready").await?;
    ensure!(
        states == [(1, "superseded"), (2, "superseded"), (3, "deployed")],
        "{states:?}"
    );
    let text = ["get", "configmap", "unready", "-o", "jsonpath={.data.text}"];
    ensure!(world.kubectl(&text).await? == "good");

    // A run that changes nothing returns from nothing: its objects were ready before.
    shop.set_value("text", "better");
    world.synced(&mut shop).await?;
    let attempt = world.begin(&mut shop, 1).await?;
    world.executor.sync(&attempt.context).await?;
    let failure = world.executor.roll_back(&attempt.context, unready).await;
    world.finish(&shop, attempt, true).await?;
    ensure!(failure.is_none(), "{failure:?}");
    Ok(())
}

/// A return keeps live values of ignored fields as an upgrade does.
pub(crate) async fn roll_back_with_live_values(world: &World) -> anyhow::Result<()> {
    let values = json!({"name": "live", "replicas": 2, "text": "one"});
    let mut shop = world.deployment_of("b-live", shop_with(&[EXTRA]), values)?;
    shop.options().on_failure = HelmFailure::Rollback;
    with_live_values(world, &mut shop, "live").await?;
    let deployment = "jsonpath={.metadata.generation} {.spec.replicas}";
    let deployment = ["get", "deployment", "live", "-o", deployment];

    shop.set_value("text", "two");
    shop.set_value("hook", "fails late");
    shop.options().on_failure = HelmFailure::Keep;
    shop.set_value("extra", "live-first");
    world.failed(&mut shop).await?;
    let found = world.kubectl(&deployment).await?;
    ensure!(found == "2 5", "{found}");
    shop.options().on_failure = HelmFailure::Rollback;
    shop.set_value("extra", "live-second");
    let (result, log) = world.sync(&mut shop).await?;
    let failure = result.err().context("the hook failed")?;
    ensure!(
        failure.sentence.ends_with("; returned to revision 1"),
        "{failure}: {log}"
    );
    let found = world.kubectl(&deployment).await?;
    ensure!(found == "2 5", "{found}: {log}");
    let text = ["get", "configmap", "live", "-o", "jsonpath={.data.text}"];
    let found = world.kubectl(&text).await?;
    ensure!(found == "live", "{found}: {log}");
    // Helm compares with the newest failed revision, the agent with the one before it, too.
    for extra in ["live-first", "live-second"] {
        let found = world.kubectl(&["get", "configmap", extra]).await;
        ensure!(found.is_err(), "{extra} is still there; the log: {log}");
    }
    // The next content goes on top of the rollback.
    shop.set_value("hook", "");
    world.synced(&mut shop).await?;
    let found = world.kubectl(&deployment).await?;
    ensure!(found == "2 5", "{found}");
    world.remove(&mut shop).await
}
