//! A hub, and a cluster whose agent in a pod delivers a small Flux with the policy `repair`.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, Pod, Site, admin::get_plain, eventually};
use serde_json::{Value, json};

use super::kubelet::Kubelet;

const STEP_DEADLINE: Duration = Duration::from_secs(180);
const HOST_KEYS: &str =
    "git.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0o1kzF8z4h3v3pQb1oI3L1b0L9gQ3m1B5oYw3V0m2Q";

pub(super) struct RepairSite {
    pub(super) hub: Hub,
    cluster: Cluster,
    _kubelet: Kubelet,
    _pod: Pod,
    agent: Site,
}

impl RepairSite {
    pub(super) async fn start(flux: &Path) -> anyhow::Result<Self> {
        let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), Hub::start())?;
        let joining = hub.create_cluster("pod").await?;
        for words in [
            &[
                "cluster",
                "set",
                "pod",
                "--git-repo",
                "ssh://git@git.example/sites/catalog.git",
                "--git-host-keys",
                HOST_KEYS,
            ][..],
            &["cluster", "agent", "set", "pod", "--gitops", "flux"],
        ] {
            hub.cli(words).await?.success()?;
        }
        let url = joining.install_url.strip_prefix("http://");
        let (address, path) = url.and_then(|url| url.split_once('/')).context("URL")?;
        let manifest = get_plain(address.parse()?, &format!("/{path}")).await?;
        let pod = Pod::install(&cluster, &manifest, "fairlead", "fairlead-agent").await?;
        let flags = ["--delivery", "on", "--facts-every", "1s"];
        let agent = Site::begin_in_with(&hub, &pod, &joining.join, "pod", &flags)?;
        hub.wait_state("pod", "Connected").await?;
        let site = RepairSite {
            _kubelet: Kubelet::start(&cluster),
            hub,
            cluster,
            _pod: pod,
            agent,
        };
        site.deploy(flux, &joining.id).await?;
        Ok(site)
    }

    async fn deploy(&self, flux: &Path, id: &str) -> anyhow::Result<()> {
        let folder = self.hub.dir().join("flux");
        fs::create_dir_all(&folder)?;
        let definition = "source.toolkit.fluxcd.io_gitrepositories.yaml";
        fs::copy(flux.join("crds").join(definition), folder.join(definition))?;
        fs::write(folder.join("flux.yaml"), include_str!("flux.yaml"))?;
        let options = json!({
            "namespace": "flux-system", "drift": "repair", "conflicts": "force", "targets": [{ "clusters": [id] }],
        });
        fs::write(folder.join("fairlead.yaml"), options.to_string())?;
        let folder = folder.display().to_string();
        let words = [
            "deploy",
            &folder,
            "--tenant",
            "t-default",
            "--yes",
            "--wait",
        ];
        let deployed = self.hub.cli_within(STEP_DEADLINE, words).await?.success();
        deployed.with_context(|| self.agent.process.log().unwrap_or_default())?;
        // The key of the agent is there, with the host keys of the registry.
        self.until("secret/flux-system", ".type", "fairlead/gitops")
            .await?;
        // The definition of Kustomizations is no part of this bundle.
        let is_healthy = |it: &Value| {
            let problems = it["health"]["problems"].as_array();
            problems.is_some_and(|it| it.len() == 1 && it[0]["code"] == "FL-6813")
        };
        self.fact("a healthy tool", is_healthy).await.map(drop)
    }

    /// Kills the agent, and starts it again.
    pub(super) fn restart_agent(&mut self) -> anyhow::Result<()> {
        self.agent.process.kill_9()?;
        self.agent.restart()
    }

    pub(super) async fn kubectl(&self, words: &[&str]) -> anyhow::Result<String> {
        let words = words.iter().copied().chain(["-n", "flux-system"]);
        self.cluster.kubectl().args(words).run().await?.success()
    }

    pub(super) async fn patch(&self, object: &str, patch: &Value) -> anyhow::Result<()> {
        let patch = patch.to_string();
        self.kubectl(&["patch", object, "--type=merge", "-p", &patch])
            .await
            .map(drop)
    }

    /// Text of a field.
    pub(super) async fn field(&self, object: &str, path: &str) -> anyhow::Result<String> {
        let path = format!("jsonpath={{{path}}}");
        self.kubectl(&["get", object, "-o", &path]).await
    }

    /// Waits until a field has this value.
    pub(super) async fn until(&self, object: &str, path: &str, value: &str) -> anyhow::Result<()> {
        let mut last = String::new();
        let found = eventually(STEP_DEADLINE, object, async || {
            last = self.field(object, path).await.ok()?;
            (last == value).then_some(())
        });
        found.await.with_context(|| {
            format!(
                "{path} is {last:?}; agent: {}",
                self.agent.process.log().unwrap_or_default()
            )
        })
    }

    /// Upgrades the controller as the catalog does.
    pub(super) async fn upgrade(&self, image: &str) -> anyhow::Result<()> {
        let controller = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": "source-controller", "namespace": "flux-system" },
            "spec": { "template": { "spec": { "containers": [{ "name": "manager", "image": image }] } } },
        });
        let words = [
            "apply",
            "--server-side",
            "--force-conflicts",
            "--field-manager=kustomize-controller",
            "-f",
            "-",
        ];
        let apply = self
            .cluster
            .kubectl()
            .args(words)
            .stdin(controller.to_string());
        apply.run().await?.success().map(drop)
    }

    /// Waits until the agent has taken the state of the tool over as the last good one.
    pub(super) async fn until_accepted(&self) -> anyhow::Result<()> {
        eventually(STEP_DEADLINE, "the last good state", async || {
            let log = self.agent.process.log().ok()?;
            log.contains("own change of the GitOps tool accepted")
                .then_some(())
        })
        .await
        .with_context(|| self.agent.process.log().unwrap_or_default())
    }

    /// Waits until the Events of an object have these reasons, and fails if there are more.
    pub(super) async fn until_announced(&self, name: &str, reasons: &[&str]) -> anyhow::Result<()> {
        let mut last = Vec::new();
        let found = eventually(Duration::from_secs(10), name, async || {
            last = self.announced(name).await.ok()?;
            (last.len() >= reasons.len()).then_some(())
        });
        found.await.with_context(|| format!("{name}: {last:?}"))?;
        ensure!(last == reasons, "{name}: {last:?} instead of {reasons:?}");
        Ok(())
    }

    /// Reasons of an object's Events from the agent, the oldest first.
    async fn announced(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let words = ["get", "events", "-A", "-o", "json"];
        let events = self.cluster.kubectl().args(words).run().await?.success()?;
        let events: Value = serde_json::from_str(&events)?;
        let events = events["items"].as_array().context("items")?;
        let own = events.iter().filter(|it| {
            it["source"]["component"] == "fairlead-agent" && it["involvedObject"]["name"] == name
        });
        let mut own: Vec<_> = own
            .map(|it| {
                (
                    it["firstTimestamp"].to_string(),
                    it["reason"].as_str().unwrap_or_default().to_owned(),
                )
            })
            .collect();
        own.sort();
        Ok(own.into_iter().map(|it| it.1).collect())
    }

    /// Waits for such a value of the fact `gitops`.
    pub(super) async fn fact(
        &self,
        what: &str,
        matches: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let mut last = Value::Null;
        let found = eventually(STEP_DEADLINE, what, async || {
            let shown = self
                .hub
                .cli(["facts", "pod", "-o", "json"])
                .await
                .ok()?
                .success()
                .ok()?;
            let shown: Value = serde_json::from_str(&shown).ok()?;
            let mut facts = shown["items"].as_array()?.iter();
            last = facts.find(|it| it["name"] == "gitops")?["value"].clone();
            matches(&last).then(|| last.clone())
        });
        let found = found.await;
        found.with_context(|| format!("{last}"))
    }
}
