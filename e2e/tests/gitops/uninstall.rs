//! `agent uninstall` after the hub has installed Flux: Flux goes with and without `--purge`, and deletes nothing of its
//! catalog meanwhile. Objects of other bundles go with `--purge` only.

use std::fs;

use anyhow::{Context, ensure};
use fairlead_e2e::{
    eventually,
    flux::{KustomizeController, NAMESPACE, SourceController},
};
use serde_json::Value;

use crate::rig::{CLUSTER, Rig, Route, STEP_DEADLINE};

/// Kinds of the installation, and that of the other bundle.
const KINDS: &str = "configmaps,namespaces,crds,serviceaccounts,clusterroles,clusterrolebindings,services,deployments,networkpolicies,resourcequotas";
const OPTIONS: &str = "namespace: default\ntargets: [{name: all, selector: env=prod}]\n";
const OBJECT: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: shop}}\n";
const OF_BUNDLE: &str = "ConfigMap shop";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uninstall_removes_flux_and_keeps_objects_of_catalog_and_bundles() -> anyhow::Result<()> {
    let rig = uninstalled(&[]).await?;
    rig.until_delivered_are(&[OF_BUNDLE]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purge_removes_flux_and_bundles_and_keeps_objects_of_the_catalog() -> anyhow::Result<()> {
    let rig = uninstalled(&["--purge"]).await?;
    rig.until_delivered_are(&[]).await
}

/// A cluster after the uninstall, in which Flux had synced its catalog and the agent had delivered another bundle.
async fn uninstalled(flags: &[&str]) -> anyhow::Result<Rig> {
    let source = SourceController::build().await?;
    let kustomize = KustomizeController::build().await?;
    let mut rig = Rig::start(Route::Direct, &[]).await?;
    rig.configure("{tool: flux, install: true}").await?;
    rig.connect().await?;
    rig.push_catalog().await?;
    // The kubelet's part.
    for name in ["source-controller", "kustomize-controller"] {
        rig.until_made("deployment", name, NAMESPACE).await?;
    }
    let folder = rig.home.path().to_owned();
    let account = rig.account("source-controller", NAMESPACE).await?;
    let _source = SourceController::start_by(&source, &account, &folder)?;
    let account = rig.account("kustomize-controller", NAMESPACE).await?;
    let _kustomize = KustomizeController::start_by(&kustomize, &account, &folder)?;
    rig.until_synced("one").await?;
    rig.until_ready().await?;
    rig.deploy_shop().await?;
    let before = rig.delivered().await?;
    ensure!(before.len() > 20, "{before:?}");
    ensure!(before.iter().any(|it| it == OF_BUNDLE), "{before:?}");

    rig.agent = None;
    let kubeconfig = rig.cluster.kubeconfig().display().to_string();
    let words = ["agent", "uninstall", "--kubeconfig", &kubeconfig, "--yes"];
    let words = [&words[..], flags].concat();
    let done = rig.hub.cli_within(STEP_DEADLINE, words).await?;
    let named = done.stderr.clone();
    let text = done.success()?;
    for object in [
        "Kustomization flux-system/flux-system",
        "GitRepository flux-system/flux-system",
        "Deployment flux-system/source-controller",
    ] {
        ensure!(named.contains(object), "no {object} in {named}");
        let line = format!("Deleted {object}.\n");
        ensure!(text.contains(&line), "no {line} in {text}");
    }
    let is_named = named.contains("ConfigMap default/shop");
    ensure!(is_named != flags.is_empty(), "{named}");
    rig.until_flux_is_gone().await?;
    let map = rig.get(&["configmap", "catalog"]).await?;
    ensure!(map["data"]["text"] == "one", "{map}");
    Ok(rig)
}

impl Rig {
    /// A bundle of a person, with one ConfigMap.
    async fn deploy_shop(&self) -> anyhow::Result<()> {
        let folder = self.home.path().join("shop");
        fs::create_dir(&folder)?;
        fs::write(folder.join("fairlead.yaml"), OPTIONS)?;
        fs::write(folder.join("shop.yaml"), OBJECT)?;
        let folder = folder.display().to_string();
        self.cli(&["cluster", "set", CLUSTER, "--annotation", "env=prod"])
            .await?;
        let words = ["deploy", &folder, "--tenant", "t-acme", "--yes", "--wait"];
        let deployed = self.hub.cli_within(STEP_DEADLINE, words).await?;
        let deployed = deployed.success().map(drop);
        deployed.with_context(|| self.agent_log())
    }

    /// Objects with the mark of a bundle, as kind and name.
    async fn delivered(&self) -> anyhow::Result<Vec<String>> {
        let list = self.get(&[KINDS, "-A", "-l", "fairlead/bundle"]).await?;
        let items = list["items"].as_array().context("items")?.iter();
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let shown =
            items.map(|it| format!("{} {}", text(&it["kind"]), text(&it["metadata"]["name"])));
        Ok(shown.collect())
    }

    async fn until_delivered_are(&self, expected: &[&str]) -> anyhow::Result<()> {
        let mut last = Vec::new();
        let same = eventually(STEP_DEADLINE, "end of the delivered objects", async || {
            last = self.delivered().await.ok()?;
            (last == expected).then_some(())
        });
        let same = same.await;
        same.with_context(|| format!("{last:?}"))
    }

    /// Namespace and definitions are deleted in the background.
    async fn until_flux_is_gone(&self) -> anyhow::Result<()> {
        let mut last = Value::Null;
        let gone = eventually(STEP_DEADLINE, "end of Flux", async || {
            last = self.get(&["namespaces,crds"]).await.ok()?;
            let mut items = last["items"].as_array()?.iter();
            let is_of_flux = |it: &Value| {
                let name = it["metadata"]["name"].as_str().unwrap_or_default();
                name == NAMESPACE || name.ends_with(".fluxcd.io")
            };
            (!items.any(is_of_flux)).then_some(())
        });
        let gone = gone.await;
        gone.with_context(|| format!("{last}"))
    }
}
