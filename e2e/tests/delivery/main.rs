//! The delivery engine of an agent on a real API server: apply, prune, refusals, locks, a kill, and a tombstone.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod fence;
mod hub;
mod prune;
mod webhook;
mod world;

use anyhow::ensure;
use fairlead_api::delivery::DeploymentState;
use fairlead_delivery_agent::kube::Propagation;
use serde_json::json;
use world::World;

const DEFINITION: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";
const THING: &str = "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: one, namespace: extra}\nspec: {size: 0644}\n";
const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: extra}\n";
const CONFIG: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {color: blue}\n";
const OTHER: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n";
const MORE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n";
const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n";
const WEB: &str = "/api/v1/namespaces/shop/configmaps/web";
const LOCK: &str = "/api/v1/namespaces/fairlead-delivery/secrets/run-b-shop";
const JOURNAL: &str = "/api/v1/namespaces/fairlead-delivery/secrets/release-b-shop";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bundle_lives_from_its_definitions_to_its_tombstone() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    let files = [
        ("a.yaml", THING),
        ("b.yaml", DEFINITION),
        ("c.yaml", NAMESPACE),
        ("d.yaml", CONFIG),
        ("e.yaml", OTHER),
    ];
    world.probe(world.hub.release("b-shop", 1, &files, |_| {}));
    world.until_ready("b-shop", 1).await?;
    let thing = world
        .get("/apis/example.org/v1/namespaces/extra/things/one")
        .await?;
    ensure!(thing["spec"]["size"] == 420, "0644 is octal: {thing}");
    ensure!(world.get(JOURNAL).await?["type"] == "fairlead/release");
    world.until_absent(LOCK).await?;

    // A restart changes nothing.
    let before = world.get(WEB).await?["metadata"]["resourceVersion"].clone();
    world.kill_agent().await?;
    world.start_agent();
    world.probe(world.hub.release("b-shop", 2, &files[..4], |_| {}));
    world.until_ready("b-shop", 2).await?;
    world
        .until_absent("/api/v1/namespaces/shop/configmaps/other")
        .await?;
    let web = world.get(WEB).await?;
    ensure!(web["metadata"]["labels"]["fairlead/bundle"] == "b-shop");
    ensure!(web["data"]["color"] == "blue" && before != json!(null));

    // Others change the object: the change is corrected by a run of its own.
    let successes = world.hub.successes();
    let red = json!({"data": {"color": "red"}});
    world.client.merge_patch(WEB, &red).await?;
    for _ in 0..600 {
        if world.get(WEB).await?["data"]["color"] == "blue" && world.hub.successes() > successes {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    ensure!(
        world.get(WEB).await?["data"]["color"] == "blue",
        "not corrected"
    );

    // The namespace ends without its controller; a tombstone of the other objects does.
    world.probe(
        world
            .hub
            .release("b-small", 1, &[("a.yaml", OTHER)], |_| {}),
    );
    world.until_ready("b-small", 1).await?;
    world.probe(world.hub.bury("b-small", 2));
    world
        .until_absent("/api/v1/namespaces/shop/configmaps/other")
        .await?;
    let journal = "/api/v1/namespaces/fairlead-delivery/secrets/release-b-small";
    world.until_absent(journal).await?;
    for _ in 0..600 {
        if world.hub.is_gone("b-small") {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    anyhow::bail!("the removal was not reported")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_journal_is_rebuilt_and_deletes_nothing() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    let files = [("a.yaml", CONFIG), ("b.yaml", OTHER), ("c.yaml", SERVICE)];
    world.probe(world.hub.release("b-shop", 1, &files, |_| {}));
    world.until_ready("b-shop", 1).await?;
    world.until_absent(LOCK).await?;
    world.kill_agent().await?;
    world
        .client
        .delete(JOURNAL, None, Propagation::Background)
        .await?;
    world.until_absent(JOURNAL).await?;
    world.start_agent();
    // The kind of the missing object is not in the new content.
    world.probe(world.hub.release("b-shop", 2, &files[..2], |_| {}));
    world.until_ready("b-shop", 2).await?;
    let service = "/api/v1/namespaces/shop/services/web";
    ensure!(world.get(service).await?["kind"] == "Service");
    let report = world.hub.report("b-shop").unwrap();
    ensure!(report.objects.total == 3, "{report:?}");
    let content = [("a.yaml", CONFIG), ("b.yaml", OTHER), ("d.yaml", MORE)];
    world.probe(world.hub.release("b-shop", 3, &content, |_| {}));
    world.until_ready("b-shop", 3).await?;
    world.until_absent(service).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_name_object_cause_and_code() -> anyhow::Result<()> {
    let world = World::start().await?;
    let taken = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "shop"}, "data": {"color": "red"}});
    world
        .client
        .apply(WEB, "somebody", false, false, &taken)
        .await?;
    world
        .hub
        .release("b-conflict", 1, &[("a.yaml", CONFIG)], |_| {});
    world
        .hub
        .release("b-weak", 1, &[("a.yaml", OTHER)], |spec| {
            spec.service_account = "weak".to_owned();
        });
    world
        .hub
        .release("b-nobody", 1, &[("a.yaml", OTHER)], |spec| {
            spec.service_account = "nobody".to_owned();
        });
    let twice = format!("{OTHER}---\n{OTHER}");
    world
        .hub
        .release("b-twice", 1, &[("a.yaml", &twice)], |_| {});
    let etag = world.hub.release("b-kind", 1, &[("a.yaml", THING)], |_| {});
    world.probe(etag);
    for (bundle, code, parts) in [
        ("b-conflict", "FL-6202", ["ConfigMap shop/web", "somebody"]),
        ("b-weak", "FL-6207", ["ConfigMap shop/other", "configmaps"]),
        (
            "b-nobody",
            "FL-6210",
            ["fairlead-delivery/nobody", "does not exist"],
        ),
        ("b-twice", "FL-6208", ["ConfigMap shop/other", "twice"]),
        ("b-kind", "FL-6205", ["Thing", "example.org/v1"]),
    ] {
        let report = world
            .until_report(bundle, |report| report.code.as_deref() == Some(code))
            .await?;
        let reason = report.reason.clone().unwrap_or_default();
        for part in parts {
            ensure!(reason.contains(part), "{bundle}: {reason}");
        }
    }
    let blocked = world.hub.report("b-twice").unwrap();
    ensure!(blocked.state == DeploymentState::Failed && blocked.retries_exhausted);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn account_of_another_namespace_runs_in_a_slot() -> anyhow::Result<()> {
    let world = World::start().await?;
    // Another run has the first slot.
    let taken = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "fairlead/run",
        "metadata": {"name": "fairlead-run-0", "namespace": "team", "labels": {"fairlead/lock": "b-other"},
            "annotations": {"fairlead/run": "other"}},
    });
    let slot = "/api/v1/namespaces/team/secrets/fairlead-run-0";
    world
        .client
        .apply(slot, "run-other.1", false, false, &taken)
        .await?;
    world.probe(
        world
            .hub
            .release("b-team", 1, &[("a.yaml", OTHER)], |spec| {
                spec.service_account = "team/ci".to_owned();
            }),
    );
    world.until_ready("b-team", 1).await?;
    let live = world.get(slot).await?;
    ensure!(live["metadata"]["labels"]["fairlead/lock"] == "b-other");
    world
        .until_absent("/api/v1/namespaces/team/secrets/fairlead-run-1")
        .await
}
