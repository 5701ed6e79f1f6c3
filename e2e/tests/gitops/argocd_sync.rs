//! Argo CD installed by the hub from a pinned manifest: its real controllers sync the catalog of a real Gitea over SSH, with
//! the agent's key before and after a rotation.

use std::time::Duration;

use anyhow::{Context, ensure};
use fairlead_e2e::{
    argocd::{ArgoCd, ArgoCdBuild, CONTROLLER, NAMESPACE, REPO_SERVER},
    eventually,
};
use serde_json::Value;
use tokio::time::Instant;

use crate::rig::{CLUSTER, INSTALL_DEADLINE, Rig, Route, STEP_DEADLINE};

/// A proof is a comparison 190 s after the key was written, and Applications are read each minute without a rotation.
const ROTATION_DEADLINE: Duration = Duration::from_secs(330);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn argocd_syncs_the_catalog_with_the_agents_key_through_a_rotation() -> anyhow::Result<()> {
    let built = ArgoCdBuild::make().await?;
    let manifests = built.folder().display().to_string();
    let mut rig = Rig::start(Route::Direct, &["--gitops-manifests", &manifests]).await?;
    let settings = format!(
        "{{tool: argocd, install: true, installation: {{version: {}, sha256: {}}}}}",
        built.version(),
        built.manifest_sha256().await?
    );
    rig.configure(&settings).await?;
    let begun = Instant::now();
    rig.connect().await?;
    rig.push_catalog().await?;
    rig.until_made("deployment", REPO_SERVER, NAMESPACE).await?;
    rig.until_made("statefulset", CONTROLLER, NAMESPACE).await?;

    let account = rig.account(CONTROLLER, NAMESPACE).await?;
    let hosts = rig.argocd_hosts().await?;
    let argocd = ArgoCd::start(&built, &account, rig.home.path(), &hosts)?;
    let synced = rig.until_synced("one").await;
    synced.with_context(|| argocd.problems())?;
    ensure!(begun.elapsed() < INSTALL_DEADLINE, "{:?}", begun.elapsed());
    println!("installed and synced after {:?}", begun.elapsed());
    rig.until_ready().await?;

    let before = rig
        .gitops_fact("the key in use", |it| {
            it["state"] == "settled" && it["code"].is_null()
        })
        .await?;
    let [key] = rig.deploy_keys().await?.try_into().map_err(many)?;
    rig.cli(&["cluster", "agent", "rotate-key", CLUSTER])
        .await?;
    let mut last = Value::Null;
    let rotated = eventually(ROTATION_DEADLINE, "end of the rotation", async || {
        let keys = rig.deploy_keys().await.ok()?;
        last = rig.gitops_fact("a fact", |_| true).await.ok()?;
        let is_over = last["state"] == "settled" && last["key"] != before["key"];
        (is_over && keys.len() == 1 && !keys.contains(&key)).then_some(())
    });
    let rotated = rotated.await;
    rotated.with_context(|| format!("{last}; {}; {}", argocd.problems(), rig.agent_log()))?;
    rig.push("two", &[]).await?;
    let synced = rig.until_synced("two").await;
    synced.with_context(|| argocd.problems()).map(drop)
}

fn many(keys: Vec<String>) -> anyhow::Error {
    anyhow::anyhow!("not one deploy key: {keys:?}")
}

impl Rig {
    /// Known hosts of Argo CD, once the agent has written them.
    async fn argocd_hosts(&self) -> anyhow::Result<String> {
        let map = ["configmap", "argocd-ssh-known-hosts-cm", "-n", NAMESPACE];
        let found = eventually(STEP_DEADLINE, "known hosts", async || {
            let map = self.get(&map).await.ok()?;
            let lines = map["data"]["ssh_known_hosts"].as_str()?;
            lines.contains("127.0.0.1").then(|| lines.to_owned())
        });
        found.await.with_context(|| self.agent_log())
    }

    /// Deploy keys of the catalog at the Git server, without comments.
    async fn deploy_keys(&self) -> anyhow::Result<Vec<String>> {
        let path = "/repos/acme/catalog/keys";
        let keys = self.gitea.call("GET", path, &Value::Null).await?;
        let keys = keys.as_array().context("no list")?.iter();
        let keys = keys.filter_map(|it| it["key"].as_str());
        Ok(keys.map(str::to_owned).collect())
    }
}
