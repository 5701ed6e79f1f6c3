//! The Helm charts, with the real Helm. Of the hub: its values, its objects on a real API server, and its settings in a real hub.

#![allow(
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod agent;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Launch, eventually, helm};
use serde_json::{Value, json};
use tokio::process::Command;

/// Files of values in `values/`.
const VALUE_SETS: usize = 14;
/// Values whose objects need no definitions of other projects.
const INSTALLED: [&str; 3] = ["01-least", "04-ingress", "08-three-hubs"];
const READY_DEADLINE: Duration = Duration::from_secs(30);
const REMOVAL_DEADLINE: Duration = Duration::from_secs(120);
/// Objects that controllers make in each new namespace. Pods need the account.
const MADE_IN_NAMESPACES: [&str; 2] = ["configmap/kube-root-ca.crt", "serviceaccount/default"];
/// Kinds of a release, and of what Helm leaves.
const KINDS: &str =
    "sts,pod,svc,ingress,cm,secret,sa,netpol,pdb,pvc,controllerrevision,role,rolebinding";

#[tokio::test]
async fn every_set_of_values_makes_objects_that_an_api_server_accepts() -> anyhow::Result<()> {
    let cluster = Cluster::shared().await?;
    restricted(cluster, "values").await?;
    let sets = value_sets()?;
    ensure!(sets.len() == VALUE_SETS, "{sets:?}");
    for set in sets {
        helm(cluster, &["lint", "--strict", &chart(), "-f", &text(&set)]).await?;
        let objects = rendered(cluster, "values", &set).await?;
        for object in &objects {
            check(cluster, object)
                .await
                .with_context(|| format!("{}: {object}", set.display()))?;
        }
    }
    Ok(())
}

/// Checks an object, and the pod of a StatefulSet. Objects of definitions that the cluster lacks are looked at by Helm alone.
async fn check(cluster: &Cluster, object: &Value) -> anyhow::Result<()> {
    let group = object["apiVersion"].as_str().unwrap_or_default();
    let foreign = ["cert-manager.io/", "monitoring.coreos.com/", "gateway."];
    if foreign.iter().any(|it| group.starts_with(it)) {
        return Ok(());
    }
    dry_run(cluster, object).await?;
    if object["kind"] == "StatefulSet" {
        let template = &object["spec"]["template"];
        let claim = json!({ "name": "data", "emptyDir": {} });
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": template["metadata"].clone(),
            "spec": template["spec"].clone(),
        });
        pod["metadata"]["name"] = "hub-0".into();
        pod["metadata"]["namespace"] = "values".into();
        // Admission asks for the account, and the claim is made by the StatefulSet's controller.
        pod["spec"]["serviceAccountName"] = "default".into();
        let volumes = pod["spec"]["volumes"].as_array_mut();
        volumes.context("no volumes")?.push(claim);
        dry_run(cluster, &pod).await?;
    }
    Ok(())
}

async fn dry_run(cluster: &Cluster, object: &Value) -> anyhow::Result<()> {
    let create = ["create", "--dry-run=server", "--validate=strict", "-f", "-"];
    let kubectl = cluster.kubectl().args(create).stdin(object.to_string());
    kubectl.run().await?.success()?;
    Ok(())
}

#[tokio::test]
async fn releases_are_installed_changed_and_removed_without_a_trace() -> anyhow::Result<()> {
    let cluster = Cluster::shared().await?;
    restricted(cluster, "hubs").await?;
    let before = objects(cluster).await?;
    for set in INSTALLED {
        let set = text(&values(set));
        let install = ["install", "hub", &chart(), "-n", "hubs", "-f", &set];
        helm(cluster, &install).await?;
        let upgrade = ["upgrade", "hub", &chart(), "-n", "hubs", "-f", &set];
        let debug = "log.filter=debug,persistence.whenDeleted=Delete";
        let changed = [&upgrade[..], &["--set", debug]].concat();
        helm(cluster, &changed).await?;
        helm(cluster, &["uninstall", "hub", "-n", "hubs"]).await?;
        // The garbage collector and the controller of StatefulSets remove the rest.
        let mut left = String::new();
        let gone = eventually(REMOVAL_DEADLINE, "only objects from before", async || {
            left = objects(cluster).await.ok()?;
            (left == before).then_some(())
        });
        gone.await.with_context(|| format!("{set}: {left}"))?;
    }
    Ok(())
}

#[tokio::test]
async fn wrong_values_are_refused_with_the_next_step() -> anyhow::Result<()> {
    let cluster = Cluster::shared().await?;
    for (set, sentence) in [
        ("publicUrl=http://hub.example.com", "does not match pattern"),
        ("publicUrl=,log.filter=info", "does not match pattern"),
        ("replica=3", "additional properties 'replica' not allowed"),
        ("replicas=3", "store.url and store.keySecret.name"),
        ("store.passwordSecret.name=x", "SQLite has no password"),
        ("tls.source=certManager", "set its name"),
        ("gateway.enabled=true", "a route needs a Gateway"),
        ("proxyProtocol=true", "networks of the load balancers"),
        ("settings.listen=x", "another value of the chart sets it"),
        ("traces.endpoint=grpc://a:4317", "does not match pattern"),
        ("traces.endpoint=http://u:p@a", "does not match pattern"),
        ("traces.ratio=1.5", "at '/traces/ratio'"),
        ("traces.headers.existingSecret=a", "set its address"),
        (
            "traces.endpoint=http://a,traces.ca.existingSecret=a,traces.ca.existingConfigMap=b",
            "one source",
        ),
        (
            "traces.endpoint=http://a,settings.otlp-endpoint=http://b",
            "another value of the chart sets it",
        ),
    ] {
        let url = "publicUrl=https://hub.example.com";
        let template = ["template", "hub", &chart(), "--set", url, "--set", set];
        let refused = helm(cluster, &template).await;
        let refused = refused.err().with_context(|| format!("{set}: accepted"))?;
        ensure!(refused.to_string().contains(sentence), "{set}: {refused}");
    }
    Ok(())
}

#[tokio::test]
async fn a_hub_starts_with_the_settings_of_the_chart() -> anyhow::Result<()> {
    let cluster = Cluster::shared().await?;
    for set in ["01-least", "04-ingress", "09-settings", "13-traces"] {
        let objects = rendered(cluster, "fairlead", &values(set)).await?;
        let settings = objects.iter().find(|it| it["kind"] == "ConfigMap");
        let settings = settings.and_then(|it| it["data"]["fairlead.toml"].as_str());
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("fairlead.toml");
        let settings = settings.context("no settings")?;
        // Only what a pod has of its own differs: its folders, and free ports.
        let mounts = folder.path().join("traces");
        fs::create_dir_all(mounts.join("headers"))?;
        fs::write(mounts.join("headers/lines"), "authorization=Bearer a\n")?;
        let settings = settings.replace("/etc/fairlead-traces", &text(&mounts));
        fs::write(&file, settings)?;
        let ready = folder.path().join("ready.json");
        let mut hub = Launch::hub()?
            .args(["server", "--config", &text(&file)])
            .args(["--data", &text(&folder.path().join("data"))])
            .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(["--ready-file", &text(&ready)]);
        if set == "04-ingress" {
            hub = hub.args(["--listen-plain", "127.0.0.1:0"]);
        }
        let mut hub = hub.spawn(folder.path().join("hub.log"))?;
        hub.wait_for_file(&ready, READY_DEADLINE).await?;
        let ready: Value = serde_json::from_slice(&fs::read(&ready)?)?;
        ensure!(ready["url"] == "https://hub.example.com", "{set}: {ready}");
        if set == "13-traces" {
            hub.wait_for_log("\"ratio\":0.01", READY_DEADLINE).await?;
        }
    }
    Ok(())
}

/// A namespace that refuses pods beyond the restricted Pod Security Standard, with the objects of its controllers.
async fn restricted(cluster: &Cluster, name: &str) -> anyhow::Result<()> {
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": name, "labels": { "pod-security.kubernetes.io/enforce": "restricted" } },
    });
    let create = cluster.kubectl().args(["apply", "-f", "-"]);
    create.stdin(namespace.to_string()).run().await?.success()?;
    eventually(READY_DEADLINE, "objects of a namespace", async || {
        let get = cluster.kubectl().args(["get", "-n", name, "-o", "name"]);
        let get = get.args(MADE_IN_NAMESPACES).run().await.ok()?;
        get.status.success().then_some(())
    })
    .await
}

/// Objects of a set of values, as JSON.
async fn rendered(cluster: &Cluster, namespace: &str, set: &Path) -> anyhow::Result<Vec<Value>> {
    let template = [
        "template",
        "hub",
        &chart(),
        "-n",
        namespace,
        "-f",
        &text(set),
    ];
    let yaml = helm(cluster, &template).await?;
    let objects = fairlead_manifests::yaml::values("chart", yaml.as_bytes())?;
    let objects: Vec<Value> = objects.into_iter().map(|(value, _)| value).collect();
    ensure!(!objects.is_empty(), "{}: no objects", set.display());
    Ok(objects)
}

/// Names and versions of all objects in the namespace of the releases.
async fn objects(cluster: &Cluster) -> anyhow::Result<String> {
    let list = ["get", KINDS, "-n", "hubs", "-o", "name"];
    cluster.kubectl().args(list).run().await?.success()
}

async fn helm(cluster: &Cluster, arguments: &[&str]) -> anyhow::Result<String> {
    let program = tokio::task::spawn_blocking(helm::program).await??;
    let output = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", cluster.kubeconfig())
        // Helm keeps the kinds of a cluster there by its port, which another cluster may have had.
        .env("HOME", cluster.dir().join("helm"))
        .stdin(Stdio::null())
        .output()
        .await?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "helm {}: {stderr}", arguments[0]);
    Ok(String::from_utf8(output.stdout)?)
}

fn chart() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    text(&folder.join("../deploy/charts/fairlead-hub"))
}

fn values(set: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder
        .join("tests/charts/values")
        .join(format!("{set}.yaml"))
}

fn value_sets() -> anyhow::Result<Vec<PathBuf>> {
    let folder = values("any");
    let folder = folder.parent().context("no folder")?;
    let files = fs::read_dir(folder)?.map(|it| Ok(it?.path()));
    files.collect()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
