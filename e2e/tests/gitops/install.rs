//! Flux installed by the hub: repository on a real Gitea with SSH, agent behind squid, and Flux's real controllers with the
//! rights of the installation. Pods become ready without a program: the test starts the controllers once their Deployments
//! exist.

use std::{
    fs,
    net::{IpAddr, UdpSocket},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_e2e::{
    Cluster, Hub, Pod, Site, eventually,
    flux::{KustomizeController, NAMESPACE, SourceController},
    gitea::Gitea,
    squid::LoopbackSquid,
};
use serde_json::{Value, json};
use tokio::{process::Command, time::Instant};

use crate::world::git;

/// Time from the manifest to the synced catalog.
const INSTALL_DEADLINE: Duration = Duration::from_secs(300);
const STEP_DEADLINE: Duration = Duration::from_secs(120);
const CLUSTER: &str = "c-edge";
const BUNDLE: &str = "b-gitops";

struct Rig {
    hub: Hub,
    gitea: Gitea,
    squid: Option<LoopbackSquid>,
    cluster: Cluster,
    home: tempfile::TempDir,
    agent: Option<(Pod, Site)>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hub_installs_flux_and_its_catalog_is_synced_without_hand_work() -> anyhow::Result<()> {
    let source = SourceController::build().await?;
    let kustomize = KustomizeController::build().await?;
    let mut rig = Rig::start().await?;
    if rig.squid.is_none() {
        println!(
            "SKIPPED: squid before the agent: it needs `e2e/net/setup`, and an address that is not loopback"
        );
    }
    rig.configure().await?;
    let begun = Instant::now();
    rig.connect().await?;
    rig.push_catalog().await?;

    // The kubelet's part.
    rig.until_deployed("source-controller").await?;
    rig.until_deployed("kustomize-controller").await?;
    let folder = rig.home.path().to_owned();
    let account = rig.account("source-controller").await?;
    let _source = SourceController::start_by(&source, &account, &folder)?;
    let account = rig.account("kustomize-controller").await?;
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
    async fn start() -> anyhow::Result<Self> {
        let home = tempfile::tempdir()?;
        let squid = match LoopbackSquid::is_installed() {
            true if outer_address().is_some() => {
                Some(LoopbackSquid::start(&home.path().join("squid")).await?)
            }
            _ => None,
        };
        let gitea = Gitea::start(&home.path().join("gitea"))?;
        let settings = git_settings(&gitea, home.path()).await?;
        let cluster = Cluster::start().await?;
        let flags = ["--git-servers", &settings];
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

    async fn cli(&self, words: &[&str]) -> anyhow::Result<String> {
        self.hub.cli(words).await?.success()
    }

    async fn json(&self, words: &[&str]) -> anyhow::Result<Value> {
        let words = [words, &["-o", "json"]].concat();
        Ok(serde_json::from_str(&self.cli(&words).await?)?)
    }

    /// A cluster whose tenant has a template: repository at the Git server, Flux, and its installation.
    async fn configure(&self) -> anyhow::Result<()> {
        let tenant = self.home.path().join("tenant.yaml");
        let text = "{id: t-acme, clusterTemplate: {agent: {gitops: {tool: flux, install: true}}}}";
        fs::write(&tenant, text)?;
        let tenant = tenant.display().to_string();
        let port = self.gitea.ssh_port();
        let url = format!("ssh://git@127.0.0.1:{port}/acme/catalog.git");
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

    /// Applies the install manifest, and starts the agent that it describes.
    async fn connect(&mut self) -> anyhow::Result<()> {
        let manifest = self.cli(&["cluster", "manifest", CLUSTER]).await?;
        let pod = Pod::install(&self.cluster, &manifest, "fairlead", "fairlead-agent").await?;
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
    async fn push_catalog(&self) -> anyhow::Result<()> {
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
    async fn push(&self, text: &str, flags: &[&str]) -> anyhow::Result<()> {
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

    /// Requests a sync of the catalog now.
    async fn request_sync(&self, token: &str) -> anyhow::Result<()> {
        let request = format!("reconcile.fluxcd.io/requestedAt={token}");
        let words = [
            "annotate",
            "--overwrite",
            "gitrepository",
            "flux-system",
            "-n",
            NAMESPACE,
            &request,
        ];
        self.cluster.kubectl().args(words).run().await?.success()?;
        Ok(())
    }

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

    async fn get(&self, words: &[&str]) -> anyhow::Result<Value> {
        let words = [&["get", "-o", "json"], words].concat();
        let shown = self.cluster.kubectl().args(words).run().await?.success()?;
        Ok(serde_json::from_str(&shown)?)
    }

    async fn until_deployed(&self, name: &str) -> anyhow::Result<()> {
        let found = eventually(STEP_DEADLINE, name, async || {
            self.get(&["deployment", name, "-n", NAMESPACE]).await.ok()
        });
        found.await.map(drop).with_context(|| self.agent_log())
    }

    fn agent_log(&self) -> String {
        let log = self.agent.as_ref().map(|(_, site)| site.process.log());
        log.and_then(Result::ok).unwrap_or_default()
    }

    /// Kubeconfig of a ServiceAccount in Flux's namespace, which has the rights of the installation and no others.
    async fn account(&self, name: &str) -> anyhow::Result<PathBuf> {
        let create = ["create", "token", name, "-n", NAMESPACE];
        let token = self.cluster.kubectl().args(create).run().await?.success()?;
        let server = format!("https://127.0.0.1:{}", self.cluster.api_port());
        let ca = STANDARD.encode(self.cluster.ca_pem());
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "one",
            "clusters": [{ "name": "one", "cluster": { "server": server, "certificate-authority-data": ca } }],
            "contexts": [{ "name": "one", "context": { "cluster": "one", "user": "one" } }],
            "users": [{ "name": "one", "user": { "token": token.trim() } }],
        });
        let path = self.home.path().join(format!("{name}.kubeconfig"));
        fs::write(&path, config.to_string())?;
        Ok(path)
    }

    /// Waits until the ConfigMap of the catalog has this text.
    async fn until_synced(&self, text: &str) -> anyhow::Result<String> {
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

    async fn until_ready(&self) -> anyhow::Result<Value> {
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
