//! The environment that the documents assume: a hub with a logged-in user, the cluster `demo`, and some
//! files.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use fairlead_e2e::fleet::{BACKUP_IDENTITY, BACKUP_RECIPIENT, fairlead};
use fairlead_e2e::{Cluster, Hub, Joining, Launch, Site, eventually};
use tokio::sync::OnceCell;

const STEP_DEADLINE: Duration = Duration::from_secs(30);
const SITE: &str = include_str!("data/site.yaml");
const FLEET: &str = include_str!("data/fleet.yaml");
const SHOP: &str =
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: shop}, data: {size: \"2\"}}\n";
const LIEUTENANT: &str = include_str!("data/lieutenant.yaml");

/// The one cluster of this test binary, with the objects that the examples need.
pub(crate) async fn cluster() -> anyhow::Result<&'static Cluster> {
    static FURNISHED: OnceCell<&'static Cluster> = OnceCell::const_new();
    let furnish = async || {
        let cluster = Cluster::shared().await?;
        apply(cluster, SITE).await?;
        // The API server accepts objects of a new kind only shortly after its definition.
        let objects = async || apply(cluster, LIEUTENANT).await.ok();
        eventually(STEP_DEADLINE, "objects of Lieutenant's kinds", objects).await?;
        anyhow::Ok(cluster)
    };
    FURNISHED.get_or_try_init(furnish).await.copied()
}

async fn apply(cluster: &Cluster, yaml: &str) -> anyhow::Result<()> {
    let kubectl = cluster.kubectl().args(["apply", "-f", "-"]).stdin(yaml);
    kubectl.run().await?.success().map(drop)
}

pub(crate) struct ExamplesWorld {
    hub: Hub,
    folder: PathBuf,
    /// Agent of `demo`, which ends when this is dropped.
    _site: Site,
    logs: Cell<usize>,
}

impl ExamplesWorld {
    pub(crate) async fn start(cluster: &Cluster) -> anyhow::Result<Self> {
        let services = [
            "--service-listen",
            "127.0.0.1",
            "--service-ports",
            "20000-20999",
            "--service-domain",
            "apps.example.com",
        ];
        let hub = Hub::start_with(&services).await?;
        let folder = hub.dir().join("work");
        fs::create_dir_all(&folder)?;
        let args = ["cluster", "create", "demo", "--id", "c-demo", "-o", "json"];
        let joining: Joining = serde_json::from_str(&hub.cli(args).await?.success()?)?;
        let site = Site::start(&hub, cluster, &joining).await?;
        lose_one(&hub, cluster).await?;
        let world = ExamplesWorld {
            folder,
            _site: site,
            logs: Cell::new(0),
            hub,
        };
        world.put_programs(cluster)?;
        world.put_files(cluster).await?;
        world.register().await?;
        Ok(world)
    }

    fn put_programs(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let bin = self.folder.join("bin");
        fs::create_dir_all(&bin)?;
        symlink(Launch::fairlead()?.program(), bin.join("fairlead"))?;
        symlink(cluster.kubectl().program(), bin.join("kubectl"))?;
        let editor = bin.join("editor");
        let edit = r"sed -i 's/^displayName: .*/&\ncreationPolicy: Adopt/' $1";
        fs::write(&editor, format!("#!/bin/sh\n{edit}\n"))?;
        fs::set_permissions(&editor, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    async fn put_files(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let home = self.hub.dir().join(".kube");
        fs::create_dir_all(&home)?;
        for folder in ["clusters", "shop", "web"] {
            fs::create_dir_all(self.folder.join(folder))?;
        }
        let kc = self.folder.join("kc");
        fs::copy(cluster.kubeconfig(), &kc)?;
        let kubectl = || cluster.kubectl().kubeconfig(&kc);
        let current = kubectl().args(["config", "current-context"]).run();
        let current = current.await?.success()?;
        let rename = ["config", "rename-context", current.trim(), "prod"];
        kubectl().args(rename).run().await?.success()?;
        for copy in [home.join("config"), self.folder.join("lieutenant.yaml")] {
            fs::copy(&kc, copy)?;
        }
        for (name, text) in [
            ("clusters.yaml", FLEET),
            ("clusters/fleet.yaml", FLEET),
            ("shop/shop.yaml", SHOP),
            ("web/web.yaml", SHOP),
            ("older.yaml", LIEUTENANT),
            ("objects.yaml", SITE),
            ("key.txt", BACKUP_IDENTITY),
            ("agent.log", "INFO agent started\n"),
            ("found.yaml", "racks: { count: 3 }\n"),
            (
                "known_hosts",
                "127.0.0.1 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl\n",
            ),
            (
                "allowed_signers",
                "ann ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl\n",
            ),
            ("admin.token", &self.hub.token()?),
        ] {
            fs::write(self.folder.join(name), text)?;
        }
        let toml = "[server]\ndata = \"toml-data\"\npublic-url = \"https://hub.example.com\"\n";
        fs::write(self.folder.join("fairlead.toml"), toml)?;
        let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=hub.example.com \
            -addext subjectAltName=DNS:hub.example.com -keyout tls.key -out tls.crt";
        let mut openssl = tokio::process::Command::new("openssl");
        openssl.args(words.split_whitespace());
        let made = openssl.current_dir(&self.folder).output().await?;
        anyhow::ensure!(made.status.success(), "openssl: {made:?}");
        let certificate = self.folder.join("tls.crt");
        fs::copy(certificate, self.folder.join("intercepting-ca.pem"))?;
        Ok(())
    }

    /// Creates tenants, clusters, a user called ann, and reported facts.
    async fn register(&self) -> anyhow::Result<()> {
        let file = |name: &str| self.folder.join(name).display().to_string();
        self.cli(&["cluster", "apply", "-f", &file("clusters.yaml")])
            .await?;
        self.cli(&["import", "lieutenant", "-f", &file("older.yaml")])
            .await?;
        let token = self.cli(&["token", "create", "ann", "--role", "admin"]);
        let token = token.await?;
        let set = ["cluster", "set", "prod", "--fact", "region=eu-1"].map(str::to_owned);
        let as_ann = [("FAIRLEAD_TOKEN", token.trim())];
        fairlead(self.hub.dir(), &set, &as_ann).await?.success()?;
        self.deliver().await?;
        let reported = eventually(STEP_DEADLINE, "facts of demo", async || {
            let facts = self.cli(&["facts", "demo"]).await.ok()?;
            facts.contains("ingressHosts").then_some(())
        });
        reported.await
    }

    /// Makes bundles, a group and a source. Targets are the cluster demo and clusters without an agent.
    async fn deliver(&self) -> anyhow::Result<()> {
        self.cli(&["cluster", "set", "demo", "--annotation", "env=prod"])
            .await?;
        for bundle in ["shop", "web"] {
            let folder = self.folder.join(bundle).display().to_string();
            self.cli(&["deploy", &folder, "--to", "env=prod", "--yes"])
                .await?;
        }
        let shop = self.folder.join("shop");
        fs::write(shop.join("shop.yaml"), SHOP.replace('2', "3"))?;
        let shop = shop.display().to_string();
        self.cli(&["deploy", &shop, "--yes"]).await?;
        self.cli(&["run", "create", "demo", "shop", "--kind", "diff"])
            .await?;
        self.cli(&["group", "set", "edge", "-l", "site=edge"])
            .await?;
        let url = "https://127.0.0.1:1/platform.git";
        let add = ["source", "add", "platform", "--git", url, "--ref", "main"];
        self.cli(&[&add[..], &["--path", "shop"]].concat()).await?;
        let shown = eventually(STEP_DEADLINE, "a rollout of shop", async || {
            self.cli(&["rollout", "status", "shop"]).await.ok()
        });
        shown.await.map(drop)
    }

    async fn cli(&self, args: &[&str]) -> anyhow::Result<String> {
        let ran = self.hub.cli(args).await?.success();
        ran.with_context(|| args.join(" "))
    }

    /// Makes a change for commands that follow changes.
    pub(crate) async fn stir(&self) -> anyhow::Result<()> {
        let number = format!("number={}", self.next());
        self.cli(&["cluster", "set", "demo", "--annotation", &number])
            .await
            .map(drop)
    }

    /// Replaces paths and secrets of the documents by those of this environment. Each command gets a new join
    /// string, since one is valid for one agent.
    pub(crate) async fn translated(&self, command: &str) -> anyhow::Result<String> {
        let new_data = self.folder.join("data").display().to_string();
        let hub_data = self.hub.data().display().to_string();
        // `fairlead server` gets new data, other commands the data of the running hub.
        let data = if command.contains("fairlead server") {
            &new_data
        } else {
            &hub_data
        };
        let (url, ca) = (&self.hub.ready().url, self.hub.ready().ca_file.display());
        let spare = format!("spare-{}", self.next());
        let join = self.join_for(command, &spare).await?;
        let replaced = [
            ("'<join string>'", join.as_str()),
            ("fl1.…", &join),
            ("age1…", BACKUP_RECIPIENT),
            // Several examples write the same file, and a backup overwrites none.
            (
                "fairlead backup hub.age",
                &format!("rm -f hub.age && fairlead backup hub.age --data {hub_data}"),
            ),
            (
                "fairlead backup registry.backup",
                &format!(
                    "rm -f registry.backup && fairlead backup registry.backup --data {hub_data}"
                ),
            ),
            ("cluster create demo", &format!("cluster create {spare}")),
            ("--listen 0.0.0.0:443", "--listen 127.0.0.1:0"),
            ("--listen :8443", "--listen :0"),
            (
                "--hub --data /var/lib/fairlead --public-url https://hub.example.com",
                &format!("--hub --data {hub_data} --public-url {url}"),
            ),
            (
                "fairlead support-bundle agent.tar.gz",
                "rm -f agent.tar.gz && fairlead support-bundle agent.tar.gz",
            ),
            ("/var/lib/fairlead-agent", "agent-state"),
            ("/var/lib/fairlead", data),
            ("/etc/fairlead.toml", "fairlead.toml"),
            ("/tmp/hub", &new_data),
            (
                "cluster manifest demo",
                &format!("cluster manifest {spare}"),
            ),
            ("https://one.example", url),
            ("https://two.example", url),
            ("--since 1042", "--since 1"),
            // Whole seconds may lie before the report of the facts.
            ("2026-11-01T12:00:00Z", "$(date -u +%FT%T.%NZ)"),
            (
                "login https://hub.example.com",
                &format!("login {url} --ca-file {ca}"),
            ),
            (
                "credential --hub https://hub.example.com",
                &format!("credential --hub {url}"),
            ),
            ("pass show hub-token", "cat admin.token"),
            ("tenant create acme", &format!("tenant create {spare}")),
            ("agent uninstall", "agent uninstall --yes"),
            ("cluster delete", "cluster delete --yes"),
            ("bundle delete", "bundle delete --yes"),
            (
                "https://git.example.com/platform.git",
                "https://127.0.0.1:1/platform.git",
            ),
            (
                "git@git.example.com:platform.git",
                "git@127.0.0.1:platform.git",
            ),
            // jq is not among the required programs.
            ("| jq -r", "| cat #"),
        ];
        let replaced = replaced.into_iter();
        Ok(replaced.fold(command.to_owned(), |line, (from, to)| {
            line.replace(from, to)
        }))
    }

    /// Join string of a new cluster in a file and as text, if the command needs one.
    async fn join_for(&self, command: &str, cluster: &str) -> anyhow::Result<String> {
        let needs = ["--join", "cluster manifest"];
        let join = match needs.iter().any(|it| command.contains(it)) {
            true => self.hub.create_cluster(cluster).await?.join,
            false => String::new(),
        };
        fs::write(self.folder.join("join.txt"), &join)?;
        Ok(join)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let bin = self.folder.join("bin");
        let path = format!(
            "{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            bin.display()
        );
        vec![
            ("PATH", path),
            ("HOME", self.hub.dir().display().to_string()),
            ("EDITOR", "editor".to_owned()),
            ("TERM", "dumb".to_owned()),
            ("FAIRLEAD_LISTEN", "127.0.0.1:0".to_owned()),
            ("FAIRLEAD_ADMIN", "127.0.0.1:0".to_owned()),
        ]
    }

    /// Path of a new file.
    pub(crate) fn next_log(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.next()))
    }

    fn next(&self) -> usize {
        self.logs.replace(self.logs.get() + 1)
    }
}

/// Registers a cluster with a lost agent.
async fn lose_one(hub: &Hub, cluster: &Cluster) -> anyhow::Result<()> {
    let joining = hub.create_cluster("gone").await?;
    let mut site = Site::start(hub, cluster, &joining).await?;
    site.process.term()?;
    site.process.wait(STEP_DEADLINE).await?;
    hub.wait_state("gone", "Lost").await
}
