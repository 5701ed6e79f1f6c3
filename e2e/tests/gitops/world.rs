//! A hub, a cluster with Flux's source-controller and an agent in a pod, and a Git server that accepts the deploy keys of
//! the hub's record.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, ensure};
use fairlead_e2e::{
    Cluster, Hub, Pod, Site,
    admin::get_plain,
    eventually,
    flux::{KustomizeController, SourceController},
    inspector::Inspector,
    ssh::SshServer,
};
use serde_json::{Value, json};
use tokio::process::Command;

const STEP_DEADLINE: Duration = Duration::from_secs(90);

pub(crate) struct World {
    pub(crate) hub: Hub,
    pub(crate) ssh: SshServer,
    pub(crate) flux: SourceController,
    /// Between agent and hub.
    pub(crate) inspector: Inspector,
    _kustomize: KustomizeController,
    cluster: Cluster,
    home: tempfile::TempDir,
    repository: PathBuf,
    _pod: Pod,
    _agent: Site,
}

/// Artifact of the source.
#[derive(Debug)]
pub(crate) struct Artifact {
    pub(crate) revision: String,
    pub(crate) commit: String,
}

impl World {
    pub(crate) async fn start(
        unpacked: &Path,
        [flux, kustomize]: [&Path; 2],
    ) -> anyhow::Result<Self> {
        let home = tempfile::tempdir()?;
        let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), Hub::start())?;
        SourceController::create_definitions(flux, &cluster).await?;
        let ssh = SshServer::start(unpacked, &home.path().join("ssh")).await?;
        ssh.authorize(&[])?;
        let repository = home.path().join("served/catalog.git");
        let bare = repository.display().to_string();
        git(
            home.path(),
            &["init", "--bare", "--initial-branch=main", &bare],
        )
        .await?;
        git(home.path(), &["clone", &bare, "clone"]).await?;

        let joining = hub.create_cluster("pod").await?;
        let hosts = home.path().join("known_hosts");
        std::fs::write(&hosts, ssh.known_host())?;
        let (url, hosts) = (ssh.url(&repository), format!("@{}", hosts.display()));
        for words in [
            &[
                "cluster",
                "set",
                "pod",
                "--git-repo",
                &url,
                "--git-host-keys",
                &hosts,
            ][..],
            &["cluster", "agent", "set", "pod", "--gitops", "flux"],
        ] {
            hub.cli(words).await?.success()?;
        }
        let url = joining.install_url.strip_prefix("http://");
        let (address, path) = url.and_then(|url| url.split_once('/')).context("URL")?;
        let manifest = get_plain(address.parse()?, &format!("/{path}")).await?;
        let pod = Pod::install(&cluster, &manifest, "fairlead", "fairlead-agent").await?;
        let inspector = Inspector::start(home.path(), &hub.ready().url, &hub.ready().ca_file);
        let inspector = inspector.await?;
        let trust = inspector.ca_file().display().to_string();
        let url = inspector.url();
        let flags = ["--facts-every", "1s", "--ca-file", &trust, "--hub", &url];
        let agent = Site::begin_in_with(&hub, &pod, &joining.join, "pod", &flags)?;
        let flux = SourceController::start(flux, &cluster, home.path())?;
        let kustomize = KustomizeController::start(kustomize, &cluster, home.path()).await?;
        let world = World {
            hub,
            _kustomize: kustomize,
            ssh,
            flux,
            inspector,
            cluster,
            home,
            repository,
            _pod: pod,
            _agent: agent,
        };
        world.authorized(|keys| keys.len() == 1).await?;
        Ok(world)
    }

    pub(crate) async fn cli(&self, words: &[&str]) -> anyhow::Result<String> {
        self.hub.cli(words).await?.success()
    }

    /// Waits until the record has such keys, and lets the Git server accept these alone.
    pub(crate) async fn authorized(
        &self,
        matches: impl Fn(&[String]) -> bool,
    ) -> anyhow::Result<()> {
        let keys = eventually(STEP_DEADLINE, "deploy keys in the record", async || {
            let keys = self.record().await.ok()?;
            matches(&keys).then_some(keys)
        });
        let keys = keys.await?;
        self.ssh
            .authorize(&keys.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Deploy keys of the record.
    async fn record(&self) -> anyhow::Result<Vec<String>> {
        let cluster = self.hub.cluster("pod").await?;
        let repo = &cluster["gitRepo"];
        let keys = [
            &repo["deployKey"],
            &repo["deployKeys"]["steward-next"]["key"],
        ];
        let keys = keys.into_iter().filter_map(Value::as_str);
        Ok(keys.map(str::to_owned).collect())
    }

    /// Waits for such a value of the fact `gitops`.
    pub(crate) async fn fact(
        &self,
        what: &str,
        matches: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        eventually(STEP_DEADLINE, what, async || {
            let shown = self.cli(&["facts", "pod", "-o", "json"]).await.ok()?;
            let shown: Value = serde_json::from_str(&shown).ok()?;
            let mut facts = shown["items"].as_array()?.iter();
            let fact = facts.find(|it| it["name"] == "gitops")?["value"].clone();
            matches(&fact).then_some(fact)
        })
        .await
    }

    /// Creates the source, which syncs each second.
    pub(crate) async fn create_source(&self) -> anyhow::Result<()> {
        let source = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "GitRepository",
            "metadata": { "name": "flux-system", "namespace": "flux-system" },
            "spec": {
                "interval": "1s",
                "url": self.ssh.url(&self.repository),
                "ref": { "branch": "main" },
                "secretRef": { "name": "flux-system" },
            },
        });
        let create = self.cluster.kubectl().args(["create", "-f", "-"]);
        create.stdin(source.to_string()).run().await?.success()?;
        let catalog = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
            "kind": "Kustomization",
            "metadata": { "name": "catalog", "namespace": "flux-system" },
            "spec": {
                "interval": "1h",
                "path": "./",
                "prune": true,
                "sourceRef": { "kind": "GitRepository", "name": "flux-system" },
            },
        });
        let create = self.cluster.kubectl().args(["create", "-f", "-"]);
        create.stdin(catalog.to_string()).run().await?.success()?;
        Ok(())
    }

    /// Waits for such a state of the component `catalog`, as `cluster catalog status` shows it.
    pub(crate) async fn component(
        &self,
        what: &str,
        matches: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        eventually(STEP_DEADLINE, what, async || {
            let status = ["cluster", "catalog", "status", "pod", "-o", "json"];
            let shown: Value = serde_json::from_str(&self.cli(&status).await.ok()?).ok()?;
            let component = &shown["components"]["Kustomization/flux-system/catalog"];
            matches(component).then(|| component.clone())
        })
        .await
    }

    /// Last artifact of the source.
    pub(crate) async fn synced(&self) -> anyhow::Result<Artifact> {
        let get = [
            "get",
            "gitrepository",
            "flux-system",
            "-n",
            "flux-system",
            "-o",
            "json",
        ];
        let source = self.cluster.kubectl().args(get).run().await?.success()?;
        let source: Value = serde_json::from_str(&source)?;
        let revision = source["status"]["artifact"]["revision"].as_str();
        let revision = revision.context("no artifact")?.to_owned();
        let commit = revision.rsplit(':').next().unwrap_or_default().to_owned();
        Ok(Artifact { revision, commit })
    }

    /// Waits until the source has the commit with this text.
    pub(crate) async fn until_synced(&self, text: &str) -> anyhow::Result<Artifact> {
        let commit = self.commit(text).await?;
        eventually(STEP_DEADLINE, text, async || {
            self.synced()
                .await
                .ok()
                .filter(|artifact| artifact.commit == commit)
        })
        .await
    }

    /// Pushes a commit.
    pub(crate) async fn push(&self, text: &str) -> anyhow::Result<()> {
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": "catalog", "namespace": "default" },
            "data": { "text": text },
        });
        self.push_file(text, &map.to_string()).await
    }

    /// Pushes a commit with another manifest.
    pub(crate) async fn push_file(&self, text: &str, manifest: &str) -> anyhow::Result<()> {
        let clone = self.home.path().join("clone");
        std::fs::write(clone.join("map.yaml"), manifest)?;
        for words in [
            &["add", "."][..],
            &["commit", "--message", text],
            &["push", "origin", "HEAD:main"],
        ] {
            git(&clone, words).await?;
        }
        Ok(())
    }

    /// Commit with this text.
    pub(crate) async fn commit(&self, text: &str) -> anyhow::Result<String> {
        let search = format!("--grep=^{text}$");
        let clone = self.home.path().join("clone");
        let found = git(&clone, &["log", "--format=%H", "-n1", &search]).await?;
        Ok(found.trim().to_owned())
    }

    /// Replaces the host keys of the record.
    pub(crate) async fn set_host_keys(&self, line: &str) -> anyhow::Result<()> {
        let hosts = self.home.path().join("known_hosts");
        std::fs::write(&hosts, line)?;
        let hosts = format!("@{}", hosts.display());
        self.cli(&["cluster", "set", "pod", "--git-host-keys", &hosts])
            .await
            .map(drop)
    }

    /// Private keys in the Secrets of the cluster, in base64.
    pub(crate) async fn private_keys(&self) -> anyhow::Result<BTreeSet<String>> {
        let list = ["get", "secrets", "-n", "flux-system", "-o", "json"];
        let secrets = self.cluster.kubectl().args(list).run().await?.success()?;
        let secrets: Value = serde_json::from_str(&secrets)?;
        let secrets = secrets["items"].as_array().context("items")?;
        let data = secrets.iter().flat_map(|secret| {
            ["identity", "previous", "next"].map(|field| secret["data"][field].as_str())
        });
        Ok(data.flatten().map(str::to_owned).collect())
    }
}

pub(crate) async fn git(folder: &Path, words: &[&str]) -> anyhow::Result<String> {
    let run = Command::new("git")
        .args(["-c", "user.name=test", "-c", "user.email=test@example.com"])
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output();
    let done = run.await?;
    let reason = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "git {words:?}: {reason}");
    Ok(String::from_utf8(done.stdout)?)
}
