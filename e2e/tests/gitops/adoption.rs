//! Adoption of a Flux that a person has installed with kubectl: left alone, adopted, returned, and returned by the uninstall.

use std::{collections::BTreeMap, fs};

use anyhow::{Context, ensure};
use fairlead_api::gitops::{DesiredTool, GitOpsTool, ToolInstallation};
use fairlead_e2e::{
    eventually,
    flux::{KustomizeController, NAMESPACE, SourceController},
};
use fairlead_gitops_install::{Installation, ToolManifest, render};
use serde_json::{Value, json};

use crate::{
    rig::{BUNDLE, CLUSTER, Rig, Route, STEP_DEADLINE},
    world::git,
};

/// Field manager of the person.
const PERSON: &str = "site-admin";
const SAVED: &str = "fairlead-gitops-adopted";
/// Objects of this name that an adoption changes.
const CHANGED_KINDS: [&str; 3] = ["secret", "gitrepository", "kustomization"];
const ALL_KINDS: &str = "crds,serviceaccounts,clusterroles,clusterrolebindings,services,deployments,networkpolicies,resourcequotas,namespaces,secrets,gitrepositories,kustomizations";
/// Repository of the person.
const REPOSITORY: &str = "site";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flux_of_a_person_is_left_alone_adopted_and_returned() -> anyhow::Result<()> {
    let source = SourceController::build().await?;
    let kustomize = KustomizeController::build().await?;
    let mut rig = Rig::start(Route::Direct, &[]).await?;
    install_by_hand(&rig).await?;
    let folder = rig.home.path().to_owned();
    let account = rig.account("source-controller", NAMESPACE).await?;
    let _source = SourceController::start_by(&source, &account, &folder)?;
    let account = rig.account("kustomize-controller", NAMESPACE).await?;
    let _kustomize = KustomizeController::start_by(&kustomize, &account, &folder)?;
    rig.until_text("site", "one").await?;
    let mut own = BTreeMap::new();
    for kind in CHANGED_KINDS {
        own.insert(kind, authored(rig.catalog_object(kind).await?));
    }

    rig.configure("{tool: flux, install: true}").await?;
    let labels = rig.namespace_labels().await?;
    ensure!(labels["app.kubernetes.io/part-of"] == "flux", "{labels}");
    let pod = rig.install().await?;
    ensure!(rig.namespace_labels().await? == labels, "other labels");
    let before = rig.versions_of_all().await?;
    ensure!(before.len() > 20, "{before:?}");
    rig.run_agent(pod).await?;
    let fact = rig.gitops_fact("the found Flux", |it| it["code"] == "FL-6815");
    let fact = fact.await?;
    ensure!(fact["found"]["state"] == "foreign", "{fact}");
    ensure!(fact["found"]["by"] == PERSON, "{fact}");
    ensure!(rig.bundle().await?.is_none(), "a bundle was made");
    let after = rig.versions_of_all().await?;
    ensure!(after == before, "{before:?} {after:?}");

    rig.adopt().await?;
    rig.push_catalog().await?;
    rig.until_synced("one").await?;
    let adopted = rig.versions_of_all().await?;
    let is_changed = |name: &String| {
        let mut kinds = ["Secret", "GitRepository", "Kustomization"].iter();
        let is_catalog = kinds.any(|kind| *name == format!("{kind} flux-system"));
        is_catalog || name.contains("fairlead-")
    };
    for (name, version) in &before {
        let is_same = adopted.get(name) == Some(version);
        ensure!(is_same || is_changed(name), "{name} was changed");
    }

    rig.cli(&["cluster", "agent", "set", CLUSTER, "--gitops-adopt=false"])
        .await?;
    rig.until_returned(&own).await?;
    let gone = eventually(STEP_DEADLINE, "end of the adoption", async || {
        let saved = ["secret", SAVED, "-n", NAMESPACE];
        rig.get(&saved).await.is_err().then_some(())
    });
    gone.await.with_context(|| rig.agent_log())?;
    push(&rig, "two").await?;
    rig.request_sync("two").await?;
    rig.until_text("site", "two").await?;

    rig.adopt().await?;
    let made = eventually(STEP_DEADLINE, "second bundle", async || {
        rig.bundle().await.ok().flatten()
    });
    made.await.with_context(|| rig.agent_log())?;
    // Its content is that of the first adoption.
    let saved = eventually(STEP_DEADLINE, "second adoption", async || {
        let source = rig.catalog_object("gitrepository").await.ok()?;
        (source["spec"]["url"] == rig.catalog_url()).then_some(())
    });
    saved.await.with_context(|| rig.agent_log())?;
    rig.agent = None;
    let kubeconfig = rig.cluster.kubeconfig().display().to_string();
    let uninstall = ["agent", "uninstall", "--kubeconfig", &kubeconfig, "--yes"];
    let done = rig.hub.cli_within(STEP_DEADLINE, uninstall).await?;
    let text = done.success()?;
    ensure!(text.contains("Returned"), "{text}");
    ensure!(rig.namespace_labels().await? == labels, "other labels");
    let namespace = rig.get(&["namespace", NAMESPACE]).await?;
    let mark = &namespace["metadata"]["annotations"]["fairlead/manifest"];
    ensure!(mark.is_null(), "{namespace}");
    rig.until_returned(&own).await?;
    push(&rig, "three").await?;
    rig.request_sync("three").await?;
    rig.until_text("site", "three").await
}

/// Applies Flux, and a source of the person's own repository.
async fn install_by_hand(rig: &Rig) -> anyhow::Result<()> {
    rig.gitea.create_repository(REPOSITORY).await?;
    let clone = rig.home.path().join(REPOSITORY);
    fs::create_dir(&clone)?;
    git(&clone, &["init", "--initial-branch=main"]).await?;
    push(rig, "one").await?;
    let desired = DesiredTool {
        tool: GitOpsTool::Flux,
        adopt: false,
        installation: ToolInstallation::default(),
        verify: None,
    };
    let url = rig.gitea.url(REPOSITORY);
    let installation = Installation {
        desired: &desired,
        url: &url,
        with_controllers: true,
    };
    let manifest = ToolManifest::embedded(GitOpsTool::Flux)?;
    let mut objects = render(&installation, &manifest)?;
    objects.retain(|it| {
        !["GitRepository", "Kustomization"]
            .map(Value::from)
            .contains(&it["kind"])
    });
    let is_first = |it: &&Value| {
        let kinds = ["Namespace", "CustomResourceDefinition"].map(Value::from);
        kinds.contains(&it["kind"])
    };
    let (first, second): (Vec<_>, Vec<_>) = objects.iter().partition(is_first);
    apply(rig, &first).await?;
    rig.cluster.until_defined().await?;
    let own = own_source(&url);
    let second: Vec<&Value> = second.into_iter().chain(&own).collect();
    apply(rig, &second).await
}

fn own_source(url: &str) -> [Value; 3] {
    let metadata = json!({ "name": NAMESPACE, "namespace": NAMESPACE });
    [
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata,
            "stringData": { "username": "ann", "password": "secret-word" },
        }),
        json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "GitRepository",
            "metadata": metadata,
            "spec": {
                "interval": "1h",
                "url": url,
                "ref": { "branch": "main" },
                "secretRef": { "name": NAMESPACE },
                "timeout": "30s",
            },
        }),
        json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
            "kind": "Kustomization",
            "metadata": metadata,
            "spec": {
                "interval": "1h",
                "path": "./",
                "prune": true,
                "wait": false,
                "sourceRef": { "kind": "GitRepository", "name": NAMESPACE },
            },
        }),
    ]
}

async fn apply(rig: &Rig, objects: &[&Value]) -> anyhow::Result<()> {
    let documents: String = objects.iter().map(|it| format!("---\n{it}\n")).collect();
    let manager = format!("--field-manager={PERSON}");
    let words = ["apply", "--server-side", &manager, "-f", "-"];
    let apply = rig.cluster.kubectl().args(words).stdin(documents);
    apply.run().await?.success().map(drop)
}

/// Pushes a ConfigMap with this text to the repository of the person.
async fn push(rig: &Rig, text: &str) -> anyhow::Result<()> {
    let clone = rig.home.path().join(REPOSITORY);
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "site", "namespace": "default" },
        "data": { "text": text },
    });
    fs::write(clone.join("map.yaml"), map.to_string())?;
    let url = rig.gitea.push_url(REPOSITORY);
    for words in [
        &["add", "."][..],
        &["commit", "--message", text],
        &["push", "--force", &url, "HEAD:main"],
    ] {
        git(&clone, words).await?;
    }
    Ok(())
}

/// Object without fields of the API server and of the controllers.
fn authored(object: Value) -> Value {
    let metadata = &object["metadata"];
    json!({
        "type": object["type"],
        "data": object["data"],
        "spec": object["spec"],
        "labels": metadata["labels"],
        "finalizers": metadata["finalizers"],
    })
}

impl Rig {
    async fn adopt(&self) -> anyhow::Result<()> {
        self.cli(&["cluster", "agent", "set", CLUSTER, "--gitops-adopt"])
            .await?;
        self.cli(&["cluster", "token", "renew", CLUSTER, "--yes"])
            .await?;
        let manifest = self.cli(&["cluster", "manifest", CLUSTER]).await?;
        let apply = self.cluster.kubectl().args(["apply", "-f", "-"]);
        apply.stdin(manifest).run().await?.success().map(drop)
    }

    async fn catalog_object(&self, kind: &str) -> anyhow::Result<Value> {
        self.get(&[kind, NAMESPACE, "-n", NAMESPACE]).await
    }

    async fn bundle(&self) -> anyhow::Result<Option<Value>> {
        let list = self
            .json(&["deployment", "list", "--cluster", CLUSTER])
            .await?;
        let items = list["items"].as_array().context("items")?;
        let mut found = items.iter().filter(|it| it.to_string().contains(BUNDLE));
        Ok(found.next().cloned())
    }

    async fn namespace_labels(&self) -> anyhow::Result<Value> {
        let namespace = self.get(&["namespace", NAMESPACE]).await?;
        Ok(namespace["metadata"]["labels"].clone())
    }

    /// Versions of all objects of Flux: by its label, or in its namespace. Flux writes the status of its own two.
    async fn versions_of_all(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let list = self.get(&[ALL_KINDS, "-A"]).await?;
        let items = list["items"].as_array().context("items")?.iter();
        let of_flux = items.filter(|it| {
            let metadata = &it["metadata"];
            metadata["namespace"] == NAMESPACE
                || metadata["name"] == NAMESPACE
                || metadata["labels"]["app.kubernetes.io/part-of"] == "flux"
        });
        let version = |it: &Value| {
            let has_status = ["GitRepository", "Kustomization"].map(Value::from);
            let field = match has_status.contains(&it["kind"]) {
                true => "generation",
                false => "resourceVersion",
            };
            let name = it["metadata"]["name"].as_str().unwrap_or_default();
            let kind = it["kind"].as_str().unwrap_or_default();
            (format!("{kind} {name}"), it["metadata"][field].to_string())
        };
        Ok(of_flux.map(version).collect())
    }

    /// Waits until the objects of the catalog are as their author had them.
    async fn until_returned(&self, own: &BTreeMap<&'static str, Value>) -> anyhow::Result<()> {
        for (kind, expected) in own {
            let mut last = Value::Null;
            let same = eventually(STEP_DEADLINE, "returned object", async || {
                last = authored(self.catalog_object(kind).await.ok()?);
                (last == *expected).then_some(())
            });
            let same = same.await;
            same.with_context(|| format!("{kind}: {last}, not {expected}; {}", self.agent_log()))?;
        }
        Ok(())
    }

    async fn until_text(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let found = eventually(STEP_DEADLINE, text, async || {
            let map = self.get(&["configmap", name]).await.ok()?;
            (map["data"]["text"] == text).then_some(())
        });
        match found.await {
            Ok(()) => Ok(()),
            Err(error) => {
                let sources = self.get(&["gitrepositories,kustomizations", "-A"]).await;
                Err(error.context(format!("{sources:?}; {}", self.agent_log())))
            }
        }
    }
}
