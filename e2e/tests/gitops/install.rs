//! Flux installed by the hub: repository on a real Gitea with SSH, agent behind squid, and Flux's real controllers with the
//! rights of the installation. Pods become ready without a program: the test starts the controllers once their Deployments
//! exist.

use std::fs;

use anyhow::{Context, ensure};
use fairlead_e2e::{
    eventually,
    flux::{KustomizeController, NAMESPACE, SourceController},
};
use serde_json::{Value, json};
use tokio::{process::Command, time::Instant};

use crate::rig::{BUNDLE, CLUSTER, INSTALL_DEADLINE, Rig, Route, STEP_DEADLINE};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hub_installs_flux_and_its_catalog_is_synced_without_hand_work() -> anyhow::Result<()> {
    let source = SourceController::build().await?;
    let kustomize = KustomizeController::build().await?;
    let mut rig = Rig::start(Route::Squid, &[]).await?;
    if rig.squid.is_none() {
        println!(
            "SKIPPED: squid before the agent: it needs `e2e/net/setup`, and an address that is not loopback"
        );
    }
    rig.configure("{tool: flux, install: true}").await?;
    let begun = Instant::now();
    rig.connect().await?;
    rig.push_catalog().await?;

    // The kubelet's part.
    rig.until_made("deployment", "source-controller", NAMESPACE)
        .await?;
    rig.until_made("deployment", "kustomize-controller", NAMESPACE)
        .await?;
    let folder = rig.home.path().to_owned();
    let account = rig.account("source-controller", NAMESPACE).await?;
    let _source = SourceController::start_by(&source, &account, &folder)?;
    let account = rig.account("kustomize-controller", NAMESPACE).await?;
    let _kustomize = KustomizeController::start_by(&kustomize, &account, &folder)?;

    let text = rig.until_synced("one").await?;
    ensure!(begun.elapsed() < INSTALL_DEADLINE, "{:?}", begun.elapsed());
    println!("installed and synced {text:?} after {:?}", begun.elapsed());
    rig.until_ready().await?;

    let before = rig.versions().await?;
    ensure!(before.len() > 20, "{before:?}");
    rig.run_again().await?;
    ensure!(
        rig.versions().await? == before,
        "a second run changes nothing"
    );
    rig.people_change_nothing().await?;
    rig.unsigned_commits_are_refused().await?;
    rig.connection_had_a_login().await
}

impl Rig {
    /// With a key of an author in the settings, its commits alone are applied.
    async fn unsigned_commits_are_refused(&self) -> anyhow::Result<()> {
        let key = self.home.path().join("author").display().to_string();
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", &key])
            .output()
            .await?;
        ensure!(made.status.success(), "{made:?}");
        let keys = format!("ann=@{key}.pub");
        self.cli(&["cluster", "agent", "set", CLUSTER, "--gitops-verify", &keys])
            .await?;
        // It has the right to write the Secret with the keys.
        self.cli(&["cluster", "token", "renew", CLUSTER, "--yes"])
            .await?;
        let manifest = self.cli(&["cluster", "manifest", CLUSTER]).await?;
        let apply = self.cluster.kubectl().args(["apply", "-f", "-"]);
        apply.stdin(manifest).run().await?.success()?;
        let source = ["gitrepository", "flux-system", "-n", NAMESPACE];
        let verified = eventually(STEP_DEADLINE, "source with keys", async || {
            let source = self.get(&source).await.ok()?;
            source["spec"]["verify"].is_object().then_some(())
        });
        verified.await.with_context(|| self.agent_log())?;

        self.push("two", &[]).await?;
        self.request_sync("two").await?;
        let refused = eventually(STEP_DEADLINE, "refused commit", async || {
            let source = self.get(&source).await.ok()?;
            let conditions = source["status"]["conditions"].as_array()?.iter();
            let mut ready =
                conditions.filter(|it| it["type"] == "Ready" && it["status"] == "False");
            ready.next().map(|it| it["message"].to_string())
        });
        let refused = refused.await?;
        ensure!(refused.contains("signature"), "{refused}");
        let map = self.get(&["configmap", "catalog"]).await?;
        ensure!(map["data"]["text"] == "one", "{map}");

        let signing_key = format!("user.signingkey={key}");
        let signed = [
            "-c",
            "gpg.format=ssh",
            "-c",
            &signing_key,
            "-c",
            "commit.gpgsign=true",
        ];
        self.push("three", &signed).await?;
        self.request_sync("three").await?;
        self.until_synced("three").await.map(drop)
    }

    /// Versions of all objects of the installation. Flux writes the status of its own two.
    async fn versions(&self) -> anyhow::Result<Vec<(String, String)>> {
        let kinds = "namespaces,crds,serviceaccounts,clusterroles,clusterrolebindings,services,deployments,networkpolicies,resourcequotas,gitrepositories,kustomizations";
        let list = self.get(&[kinds, "-A", "-l", "fairlead/bundle"]).await?;
        let items = list["items"].as_array().context("items")?;
        let version = |it: &Value| {
            let is_of_flux = ["GitRepository", "Kustomization"]
                .map(Value::from)
                .contains(&it["kind"]);
            let field = match is_of_flux {
                true => "generation",
                false => "resourceVersion",
            };
            let name = format!("{} {}", it["kind"], it["metadata"]["name"]);
            (name, it["metadata"][field].to_string())
        };
        Ok(items.iter().map(version).collect())
    }

    async fn runs(&self) -> anyhow::Result<usize> {
        let list = self.json(&["run", "list", "--cluster", CLUSTER]).await?;
        let runs = list["items"].as_array().context("items")?;
        Ok(runs.iter().filter(|it| it["state"] == "Succeeded").count())
    }

    async fn run_again(&self) -> anyhow::Result<()> {
        let before = self.runs().await?;
        self.cli(&["deployment", "sync", CLUSTER, BUNDLE]).await?;
        let ended = eventually(STEP_DEADLINE, "second run", async || {
            (self.runs().await.ok()? > before).then_some(())
        });
        ended.await?;
        self.until_ready().await.map(drop)
    }

    /// squid logs a connection at its end.
    async fn connection_had_a_login(mut self) -> anyhow::Result<()> {
        self.agent = None;
        let Some(squid) = self.squid else {
            return Ok(());
        };
        let logged = eventually(STEP_DEADLINE, "connection in squid's log", async || {
            let log = squid.access_log().ok()?;
            let mut lines = log.lines();
            lines
                .find(|it| it.contains("CONNECT") && it.contains(" agent "))
                .map(drop)
        });
        logged
            .await
            .with_context(|| squid.access_log().unwrap_or_default())
    }

    async fn people_change_nothing(&self) -> anyhow::Result<()> {
        let folder = self.home.path().join("other");
        fs::create_dir(&folder)?;
        let map =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "other" } });
        fs::write(folder.join("map.yaml"), map.to_string())?;
        let folder = folder.display().to_string();
        let name = format!("gitops-{CLUSTER}");
        let words = [
            "deploy", &folder, "--name", &name, "--tenant", "t-acme", "--yes",
        ];
        let refused = self.hub.cli(&words).await?;
        let text = format!("{refused:?}");
        ensure!(text.contains("FL-6113"), "{text}");
        Ok(())
    }
}
