//! Objects of a Helm release: corrected without a new revision.

use std::{fs, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, ensure};
use fairlead_api::{
    BundleId,
    delivery::{DriftPolicy, DriftedObject},
};
use fairlead_delivery_agent::drift::{
    DeliveryOwner, DriftEvent, FollowedDeployment, FollowedObject, RollbackNote,
    mark_release_object,
};
use fairlead_manifests::{ObjectKey, ObjectKind, Scope, yaml};
use serde_json::Value;
use tokio::{process::Command, time::sleep};

use crate::{ANSWER_DEADLINE, world::World};

const CHART: [(&str, &str); 3] = [
    ("Chart.yaml", "{apiVersion: v2, name: shop, version: 1.0.0}"),
    (
        "templates/config.yaml",
        "apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {text: {{ .Values.text | quote }}, other: a}
",
    ),
    (
        "templates/web.yaml",
        "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  paused: true
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web, env: [{name: A, value: b}]}]}
",
    ),
];

async fn helm(world: &World, args: &[&str]) -> anyhow::Result<String> {
    let program = fairlead_e2e::helm::program()?;
    let kubeconfig = world.cluster.kubeconfig();
    let mut command = Command::new(program);
    let home = world.cluster.dir().join("helm");
    command.args(args).arg("--kubeconfig").arg(kubeconfig);
    command.env_clear().env("HOME", &home);
    let output = command.output().await?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "helm {args:?}: {stderr}");
    Ok(String::from_utf8(output.stdout)?)
}

async fn upgrade(world: &World, chart: &Path, text: &str) -> anyhow::Result<()> {
    let chart = chart.to_str().context("path")?;
    let text = format!("text={text}");
    helm(
        world,
        &[
            "upgrade",
            "--install",
            "shop",
            chart,
            "-n",
            "shop",
            "--create-namespace",
            "--set",
            &text,
        ],
    )
    .await?;
    Ok(())
}

async fn follow(world: &World, bundle: &BundleId) -> anyhow::Result<()> {
    let manifest = helm(world, &["get", "manifest", "shop", "-n", "shop"]).await?;
    let mut objects = Vec::new();
    for manifest in yaml::parse("release.yaml", manifest.as_bytes())? {
        let mut object = manifest.object;
        let kind = ObjectKind::of(&object).context("kind")?;
        let resource = world.discovery.resource(&kind).await?.context("resource")?;
        if resource.scope == Scope::Namespaced {
            object["metadata"]["namespace"] = "shop".into();
        }
        mark_release_object(&mut object, "shop", "shop");
        let key = ObjectKey::of(&object).context("object")?;
        let text = object.to_string().into();
        objects.push(FollowedObject::new(key, resource, text, None));
    }
    ensure!(objects.len() == 2, "{objects:?}");
    world
        .monitor
        .follow(FollowedDeployment {
            reports_only: false,
            bundle: bundle.clone(),
            account: "deployer".to_owned(),
            user: "admin".to_owned(),
            owner: DeliveryOwner::Helm,
            policy: DriftPolicy::Correct,
            ignore: Vec::new(),
            objects,
            rollbacks: RollbackNote::default(),
        })
        .await;
    sleep(Duration::from_secs(5)).await;
    Ok(())
}

async fn kubectl(world: &World, args: &[&str]) -> anyhow::Result<()> {
    let args = ["-n", "shop"].into_iter().chain(args.iter().copied());
    world.cluster.kubectl().args(args).run().await?.success()?;
    Ok(())
}

async fn corrected(world: &World, bundle: &BundleId) -> anyhow::Result<Vec<DriftedObject>> {
    let objects = world
        .until_of(
            bundle,
            ANSWER_DEADLINE,
            "a correction",
            |event| match event {
                DriftEvent::Corrected { objects, .. } if !objects.is_empty() => {
                    Some(objects.clone())
                }
                _ => None,
            },
        )
        .await?;
    world.forget_events();
    Ok(objects)
}

/// Waits for the correction of the replicas. An edit before that may have had one of its own.
async fn replicas_corrected(world: &World, bundle: &BundleId) -> anyhow::Result<()> {
    let has_replicas = |event: &DriftEvent| match event {
        DriftEvent::Corrected { objects, .. } => {
            let mut fields = objects.iter().flat_map(|it| &it.fields);
            fields.any(|it| it == ".spec.replicas").then_some(())
        }
        _ => None,
    };
    let corrected = world.until_of(bundle, ANSWER_DEADLINE, "replicas", has_replicas);
    corrected.await?;
    world.forget_events();
    Ok(())
}

async fn live(world: &World, path: &str) -> anyhow::Result<Value> {
    world.client.get(path).await?.context("it is gone")
}

const MAP: &str = "/api/v1/namespaces/shop/configmaps/settings";
const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_is_corrected_without_a_revision() -> anyhow::Result<()> {
    let world = World::start().await?;
    let folder = tempfile::tempdir()?;
    let chart = folder.path().join("shop");
    fs::create_dir_all(chart.join("templates"))?;
    for (path, content) in CHART {
        fs::write(chart.join(path), content)?;
    }
    upgrade(&world, &chart, "one").await?;
    let bundle: BundleId = "b-shop".parse()?;
    follow(&world, &bundle).await?;
    // A fresh release is no drift, and is not written.
    let news = world.events_of(&bundle);
    let is_quiet = |event: &DriftEvent| {
        matches!(
            event,
            DriftEvent::HealthChanged(_) | DriftEvent::BesideChanged(_)
        )
    };
    ensure!(news.iter().all(is_quiet), "{news:?}");
    world.forget_events();

    let patch = [
        "patch",
        "configmap",
        "settings",
        "--type=merge",
        "-p",
        r#"{"data":{"text":"x","mine":"y"}}"#,
    ];
    kubectl(&world, &patch).await?;
    let drift = corrected(&world, &bundle).await?;
    ensure!(drift[0].fields == [".data.text"], "{drift:?}");
    ensure!(
        drift[0].manager.as_deref() == Some("kubectl-patch"),
        "{drift:?}"
    );
    let map = live(&world, MAP).await?;
    ensure!(
        map["data"]["text"] == "one" && map["data"]["mine"] == "y",
        "{map}"
    );

    kubectl(&world, &["set", "env", "deployment/web", "A=x"]).await?;
    kubectl(&world, &["scale", "deployment", "web", "--replicas=5"]).await?;
    replicas_corrected(&world, &bundle).await?;
    let web = live(&world, WEB).await?;
    ensure!(web["spec"]["replicas"] == 2, "{web}");

    kubectl(&world, &["delete", "configmap", "settings"]).await?;
    corrected(&world, &bundle).await?;
    let map = live(&world, MAP).await?;
    let key = ObjectKey::of(&map).context("key")?;
    ensure!(
        map["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm",
        "{key}: {map}"
    );

    // A label that Helm adds is part of the object.
    kubectl(
        &world,
        &[
            "label",
            "configmap",
            "settings",
            "app.kubernetes.io/managed-by-",
        ],
    )
    .await?;
    corrected(&world, &bundle).await?;

    let history = helm(&world, &["history", "shop", "-n", "shop", "-o", "json"]).await?;
    let history: Vec<Value> = serde_json::from_str(&history)?;
    ensure!(history.len() == 1, "{history:?}");
    // The next upgrade by Helm works on corrected objects.
    world.monitor.release(&bundle).await;
    upgrade(&world, &chart, "two").await?;
    let map = live(&world, MAP).await?;
    ensure!(map["data"]["text"] == "two", "{map}");
    follow(&world, &bundle).await?;
    let history = helm(&world, &["history", "shop", "-n", "shop", "-o", "json"]).await?;
    ensure!(serde_json::from_str::<Vec<Value>>(&history)?.len() == 2);
    drop(Arc::new(world));
    Ok(())
}
