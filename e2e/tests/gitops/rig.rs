//! A hub, a real Gitea with SSH, and a cluster with an agent in a pod. Pods of the tool become ready without a program: tests
//! start its controllers.

use std::{
    fs,
    net::{IpAddr, UdpSocket},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_e2e::{Cluster, Hub, Pod, Site, eventually, flux, gitea::Gitea, squid::LoopbackSquid};
use serde_json::{Value, json};

use crate::world::git;

/// Time from the manifest to the synced catalog.
pub(crate) const INSTALL_DEADLINE: Duration = Duration::from_secs(300);
pub(crate) const STEP_DEADLINE: Duration = Duration::from_secs(120);
pub(crate) const CLUSTER: &str = "c-edge";
pub(crate) const BUNDLE: &str = "b-gitops";

/// Way of the agent to the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    Direct,
    /// Through squid with a login, where it is installed.
    Squid,
}

pub(crate) struct Rig {
    pub(crate) hub: Hub,
    pub(crate) gitea: Gitea,
    pub(crate) squid: Option<LoopbackSquid>,
    pub(crate) cluster: Cluster,
    pub(crate) home: tempfile::TempDir,
    pub(crate) agent: Option<(Pod, Site)>,
}

impl Rig {
    /// Starts all parts. `flags`: further flags of the hub.
    pub(crate) async fn start(route: Route, flags: &[&str]) -> anyhow::Result<Self> {
        let home = tempfile::tempdir()?;
        let is_proxied =
            route == Route::Squid && LoopbackSquid::is_installed() && outer_address().is_some();
        let squid = match is_proxied {
            true => Some(LoopbackSquid::start(&home.path().join("squid")).await?),
            false => None,
        };
        let gitea = Gitea::start(&home.path().join("gitea"))?;
        let settings = git_settings(&gitea, home.path()).await?;
        let cluster = Cluster::start().await?;
        let flags = [&["--git-servers", &settings], flags].concat();
        let hub = match (&squid, outer_address()) {
            (Some(_), Some(ip)) => Hub::start_server_at(ip, &flags).await?,
            _ => Hub::start_server(&flags).await?,
        };
        hub.log_in().await?;
        Ok(Rig {
            hub,
            gitea,
            squid,
            cluster,
            home,
            agent: None,
        })
    }

    pub(crate) async fn cli(&self, words: &[&str]) -> anyhow::Result<String> {
        self.hub.cli(words).await?.success()
    }

    pub(crate) async fn json(&self, words: &[&str]) -> anyhow::Result<Value> {
        let words = [words, &["-o", "json"]].concat();
        Ok(serde_json::from_str(&self.cli(&words).await?)?)
    }

    /// A cluster whose tenant has a template: repository at the Git server, and these settings of its tool.
    pub(crate) async fn configure(&self, gitops: &str) -> anyhow::Result<()> {
        let tenant = self.home.path().join("tenant.yaml");
        let text = format!("{{id: t-acme, clusterTemplate: {{agent: {{gitops: {gitops}}}}}}}");
        fs::write(&tenant, text)?;
        let tenant = tenant.display().to_string();
        let url = self.catalog_url();
        for words in [
            &["tenant", "apply", "-f", &tenant, "--yes"][..],
            &[
                "cluster", "create", "edge", "--tenant", "t-acme", "--id", CLUSTER,
            ],
            &["cluster", "set", CLUSTER, "--git-repo", &url, "--yes"],
        ] {
            self.cli(words).await?;
        }
        Ok(())
    }

    /// URL of the catalog's repository.
    pub(crate) fn catalog_url(&self) -> String {
        let port = self.gitea.ssh_port();
        format!("ssh://git@127.0.0.1:{port}/acme/catalog.git")
    }

    /// Applies the install manifest, and starts the agent that it describes.
    pub(crate) async fn connect(&mut self) -> anyhow::Result<()> {
        let pod = self.install().await?;
        self.run_agent(pod).await
    }

    /// Applies the install manifest.
    pub(crate) async fn install(&self) -> anyhow::Result<Pod> {
        let manifest = self.cli(&["cluster", "manifest", CLUSTER]).await?;
        Pod::install(&self.cluster, &manifest, "fairlead", "fairlead-agent").await
    }

    /// Starts the agent, and waits for its session.
    pub(crate) async fn run_agent(&mut self, pod: Pod) -> anyhow::Result<()> {
        let secret = self
            .get(&["secret", "fairlead-join", "-n", "fairlead"])
            .await?;
        let join = secret["data"]["join"].as_str().context("no join string")?;
        let join = String::from_utf8(STANDARD.decode(join)?)?;
        let proxy = self.squid.as_ref().map(LoopbackSquid::url);
        let flags = ["--delivery", "on"];
        let agent = Site::begin_behind(&self.hub, (&pod, proxy.as_deref()), &join, "edge", &flags)?;
        self.hub.wait_state(CLUSTER, "Connected").await?;
        self.agent = Some((pod, agent));
        Ok(())
    }

    /// Pushes the catalog once the hub has made its repository.
    pub(crate) async fn push_catalog(&self) -> anyhow::Result<()> {
        let created = eventually(STEP_DEADLINE, "repository of the catalog", async || {
            let cluster = self.hub.cluster(CLUSTER).await.ok()?;
            (cluster["gitRepo"]["state"]["phase"] == "created").then_some(())
        });
        created.await?;
        let clone = self.home.path().join("clone");
        fs::create_dir(&clone)?;
        git(&clone, &["init", "--initial-branch=main"]).await?;
        self.push("one", &[]).await
    }

    /// Pushes a commit with this text, and these flags of git.
    pub(crate) async fn push(&self, text: &str, flags: &[&str]) -> anyhow::Result<()> {
        let clone = self.home.path().join("clone");
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": "catalog", "namespace": "default" },
            "data": { "text": text },
        });
        fs::write(clone.join("map.yaml"), map.to_string())?;
        let url = self.gitea.push_url_of("acme", "catalog");
        for words in [
            &["add", "."][..],
            &[flags, &["commit", "--message", text]].concat(),
            &["push", "--force", &url, "HEAD:main"],
        ] {
            git(&clone, words).await?;
        }
        Ok(())
    }

    pub(crate) async fn get(&self, words: &[&str]) -> anyhow::Result<Value> {
        let words = [&["get", "-o", "json"], words].concat();
        let shown = self.cluster.kubectl().args(words).run().await?.success()?;
        Ok(serde_json::from_str(&shown)?)
    }

    pub(crate) async fn until_made(
        &self,
        kind: &str,
        name: &str,
        namespace: &str,
    ) -> anyhow::Result<()> {
        let found = eventually(STEP_DEADLINE, name, async || {
            self.get(&[kind, name, "-n", namespace]).await.ok()
        });
        found.await.map(drop).with_context(|| self.agent_log())
    }

    pub(crate) fn agent_log(&self) -> String {
        let log = self.agent.as_ref().map(|(_, site)| site.process.log());
        log.and_then(Result::ok).unwrap_or_default()
    }

    /// Kubeconfig of a ServiceAccount of the tool, which has the rights of the installation and no others.
    pub(crate) async fn account(&self, name: &str, namespace: &str) -> anyhow::Result<PathBuf> {
        let create = ["create", "token", name, "-n", namespace, "--duration=1h"];
        let token = self.cluster.kubectl().args(create).run().await?.success()?;
        let server = format!("https://127.0.0.1:{}", self.cluster.api_port());
        let ca = STANDARD.encode(self.cluster.ca_pem());
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "one",
            "clusters": [{ "name": "one", "cluster": { "server": server, "certificate-authority-data": ca } }],
            "contexts": [{ "name": "one", "context": { "cluster": "one", "user": "one", "namespace": namespace } }],
            "users": [{ "name": "one", "user": { "token": token.trim() } }],
        });
        let path = self.home.path().join(format!("{name}.kubeconfig"));
        fs::write(&path, config.to_string())?;
        Ok(path)
    }

    /// Waits until the installation is delivered and ready.
    pub(crate) async fn until_ready(&self) -> anyhow::Result<Value> {
        let mut last = Value::Null;
        let found = eventually(STEP_DEADLINE, "ready installation", async || {
            last = self
                .json(&["deployment", "get", CLUSTER, BUNDLE])
                .await
                .ok()?;
            (last["state"] == "Ready").then(|| last.clone())
        });
        match found.await {
            Ok(ready) => Ok(ready),
            Err(error) => {
                let run = last["run"].as_str().unwrap_or_default();
                let log = self.cli(&["run", "logs", run]).await;
                Err(error.context(format!("{last}; {log:?}; {}", self.agent_log())))
            }
        }
    }

    /// Requests a sync of the catalog now.
    pub(crate) async fn request_sync(&self, token: &str) -> anyhow::Result<()> {
        let request = format!("reconcile.fluxcd.io/requestedAt={token}");
        let words = [
            "annotate",
            "--overwrite",
            "gitrepository",
            "flux-system",
            "-n",
            flux::NAMESPACE,
            &request,
        ];
        self.cluster.kubectl().args(words).run().await?.success()?;
        Ok(())
    }

    /// Waits for such a value of the fact `gitops`.
    pub(crate) async fn gitops_fact(
        &self,
        what: &str,
        matches: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let mut last = Value::Null;
        let found = eventually(STEP_DEADLINE, what, async || {
            let shown = self.json(&["facts", CLUSTER]).await.ok()?;
            let mut facts = shown["items"].as_array()?.iter();
            last = facts.find(|it| it["name"] == "gitops")?["value"].clone();
            matches(&last).then(|| last.clone())
        });
        let found = found.await;
        found.with_context(|| format!("{last}; {}", self.agent_log()))
    }

    /// Waits until the ConfigMap of the catalog has this text.
    pub(crate) async fn until_synced(&self, text: &str) -> anyhow::Result<String> {
        let found = eventually(INSTALL_DEADLINE, "synced catalog", async || {
            let map = self.get(&["configmap", "catalog"]).await.ok()?;
            (map["data"]["text"] == text).then(|| text.to_owned())
        });
        match found.await {
            Ok(text) => Ok(text),
            Err(error) => {
                let sources = self.get(&["gitrepositories,kustomizations", "-A"]).await;
                let facts = self.cli(&["facts", CLUSTER, "-o", "json"]).await;
                Err(error.context(format!("{sources:?}; {facts:?}; {}", self.agent_log())))
            }
        }
    }
}

/// Address of this machine that is not loopback. Connecting a UDP socket sends nothing.
fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback() && !ip.is_unspecified()).then_some(ip)
}

/// Settings of the hub for this Gitea. They pin the host keys.
async fn git_settings(gitea: &Gitea, folder: &Path) -> anyhow::Result<String> {
    let token = folder.join("token");
    fs::write(&token, gitea.create_token().await?)?;
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600))?;
    let settings = folder.join("git.toml");
    let text = format!(
        "[[server]]\nname = \"gitea\"\nendpoint = \"{}\"\ntoken_file = \"{}\"\nssh_host = \"127.0.0.1\"\nssh_port = {}\n\
         create_groups = true\nhost_keys = \"\"\"\n{}\"\"\"\n",
        gitea.endpoint(),
        token.display(),
        gitea.ssh_port(),
        gitea.host_keys().await?,
    );
    fs::write(&settings, text)?;
    Ok(settings.display().to_string())
}
