//! Everything that runs while measurements are made: upstream, proxy, and Fairlead's hub and agent, started as their users would.

use std::{
    fs::OpenOptions,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::json;
use tokio::{
    process::Command,
    time::{self, Instant},
};

use super::{
    launch::{Launcher, Role},
    plan::Route,
};
use crate::serve::{Ready, ready_file};

const CLUSTER: &str = "bench";
const COMMAND: Duration = Duration::from_secs(20);
const CONNECTED: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(200);

/// How the load client goes a route.
pub(super) struct Way {
    pub(super) route: Route,
    pub(super) url: String,
    pub(super) ca_file: PathBuf,
    pub(super) token_file: PathBuf,
    /// `ROLE=PID` of every process on the way, the client's side first.
    pub(super) watched: Vec<String>,
}

pub(super) struct Site {
    roles: Vec<Role>,
    pub(super) ways: Vec<Way>,
}

impl Site {
    /// `dir` takes keys and tokens; it must be private to this user.
    pub(super) async fn start(
        launcher: &Launcher,
        dir: &Path,
        fairlead: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let token_file = dir.join("upstream.token");
        write_secret(&token_file, "a-token-for-the-stand-in")?;

        let mut command = launcher.bench("upstream");
        command.arg("--dir").arg(dir);
        let mut upstream = launcher.start("upstream", command)?;
        let upstream_ready: Ready = upstream.ready(&ready_file("upstream", dir)).await?;
        let upstream_pid = upstream.watched()?;

        let mut command = launcher.bench("proxy");
        command
            .arg("--dir")
            .arg(dir)
            .args(["--upstream", &upstream_ready.url]);
        command.arg("--upstream-ca").arg(&upstream_ready.ca_file);
        let mut proxy = launcher.start("proxy", command)?;
        let proxy_ready: Ready = proxy.ready(&ready_file("proxy", dir)).await?;

        let direct = Way {
            route: Route::Direct,
            url: upstream_ready.url.clone(),
            ca_file: upstream_ready.ca_file.clone(),
            token_file: token_file.clone(),
            watched: vec![upstream_pid.clone()],
        };
        let through_proxy = Way {
            route: Route::Proxy,
            url: proxy_ready.url,
            ca_file: proxy_ready.ca_file,
            token_file,
            watched: vec![proxy.watched()?, upstream_pid.clone()],
        };
        let mut site = Self {
            roles: vec![upstream, proxy],
            ways: vec![direct, through_proxy],
        };
        if let Some(binary) = fairlead {
            let hub = Fairlead {
                launcher,
                binary,
                dir,
            };
            let (roles, mut way) = hub.start(&upstream_ready).await?;
            way.watched.push(upstream_pid);
            site.roles.extend(roles);
            site.ways.push(way);
        }
        Ok(site)
    }

    /// # Errors
    /// If a role has ended by itself.
    pub(super) fn alive(&mut self) -> anyhow::Result<()> {
        self.roles.iter_mut().try_for_each(Role::alive)
    }

    pub(super) async fn end(self) {
        for role in self.roles {
            role.end().await;
        }
    }
}

struct Fairlead<'a> {
    launcher: &'a Launcher,
    binary: &'a Path,
    dir: &'a Path,
}

/// The ready file of `fairlead dev`, as far as it is needed here.
#[derive(Deserialize)]
struct HubReady {
    url: String,
    ca_file: PathBuf,
    token_file: PathBuf,
}

#[derive(Deserialize)]
struct Created {
    id: String,
    join: String,
}

#[derive(Deserialize)]
struct Shown {
    status: ShownStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShownStatus {
    state: String,
    last_error: Option<serde_json::Value>,
}

impl Fairlead<'_> {
    async fn start(&self, upstream: &Ready) -> anyhow::Result<([Role; 2], Way)> {
        let ready_file = self.dir.join("hub.ready.json");
        let mut command = self.launcher.command(self.binary);
        command.arg("dev").arg("--data").arg(self.dir.join("hub"));
        command
            .args([
                "--listen",
                "127.0.0.1:0",
                "--admin",
                "127.0.0.1:0",
                "--ready-file",
            ])
            .arg(&ready_file);
        let mut hub = self.launcher.start("hub", command)?;
        let ready: HubReady = hub.ready(&ready_file).await?;

        let create = self.client(&ready, &["cluster", "create", CLUSTER, "-o", "json"])?;
        let created: Created = self
            .launcher
            .ask("fairlead cluster create", create, COMMAND)
            .await?;
        let mut agent = self.start_agent(upstream, &created.join)?;
        self.connected(&ready, &mut agent).await?;

        let way = Way {
            route: Route::Fairlead,
            url: format!(
                "{}/k8s/clusters/{}",
                ready.url.trim_end_matches('/'),
                created.id
            ),
            ca_file: ready.ca_file,
            token_file: ready.token_file,
            watched: vec![hub.watched()?, agent.watched()?],
        };
        Ok(([hub, agent], way))
    }

    fn start_agent(&self, upstream: &Ready, join: &str) -> anyhow::Result<Role> {
        let (kubeconfig, join_file) = (self.dir.join("kubeconfig"), self.dir.join("join"));
        write_secret(&kubeconfig, &kubeconfig_of(upstream).to_string())?;
        // From a file: a command line is for everyone to read.
        write_secret(&join_file, join)?;
        let mut command = self.launcher.command(self.binary);
        command
            .args([
                "agent",
                "--join",
                &format!("@{}", join_file.display()),
                "--kubeconfig",
            ])
            .arg(kubeconfig);
        command.arg("--state").arg(self.dir.join("agent"));
        self.launcher.start("agent", command)
    }

    async fn connected(&self, ready: &HubReady, agent: &mut Role) -> anyhow::Result<()> {
        eprintln!("waiting until the cluster is Connected");
        let deadline = Instant::now() + CONNECTED;
        loop {
            agent.alive()?;
            let get = self.client(ready, &["cluster", "get", CLUSTER, "-o", "json"])?;
            let shown: Shown = self
                .launcher
                .ask("fairlead cluster get", get, COMMAND)
                .await?;
            if shown.status.state == "Connected" {
                return Ok(());
            }
            if Instant::now() > deadline {
                let error = shown.status.last_error.unwrap_or_default();
                let step = format!(
                    "wait for Connected; it is {} after {CONNECTED:?}, last error {error}",
                    shown.status.state
                );
                bail!(agent.failed(&step));
            }
            time::sleep(LOOK).await;
        }
    }

    /// A command of the hub's admin.
    fn client(&self, ready: &HubReady, args: &[&str]) -> anyhow::Result<Command> {
        let token = std::fs::read_to_string(&ready.token_file).with_context(|| {
            format!(
                "reading the hub's token file {}",
                ready.token_file.display()
            )
        })?;
        let mut command = self.launcher.command(self.binary);
        command.args(args);
        command
            .env("FAIRLEAD_URL", &ready.url)
            .env("FAIRLEAD_TOKEN", token.trim())
            .env("FAIRLEAD_CA_FILE", &ready.ca_file);
        Ok(command)
    }
}

/// JSON is YAML as well.
fn kubeconfig_of(upstream: &Ready) -> serde_json::Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [{"name": "bench", "cluster": {"server": upstream.url, "certificate-authority": upstream.ca_file}}],
        "users": [{"name": "bench", "user": {"token": "a-token-for-the-stand-in"}}],
    })
}

fn write_secret(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("writing {}", path.display()))
}
