//! Hubs and sites as child processes, started by the same commands as a user's.

mod server;

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use fairlead_testkit::process::{Launch, Process, ProcessLocation};
use fairlead_testkit::raw::RawClient;
use fairlead_testkit::wait::eventually;

use crate::admin::{Metrics, admin_client, metrics};
use crate::kube::Cluster;
use crate::kubectl::{Kubectl, Output, run_to_end};
use crate::netns::NetNs;
use crate::pod::Pod;
use crate::pty::Terminal;

/// Public key of the tests' backups, made by `age-keygen`.
pub const BACKUP_RECIPIENT: &str = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj";
/// Its private key.
pub const BACKUP_IDENTITY: &str =
    "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX\n";

/// Deadline of a ready hub, and of a new session.
const READY_DEADLINE: Duration = Duration::from_secs(30);

/// Contents of a ready file.
#[derive(Debug, Clone, Deserialize)]
pub struct Ready {
    /// Public URL, for agents and callers.
    pub url: String,
    /// URL of health, metrics and install manifests.
    pub admin_url: String,
    /// CA certificate of the hub, PEM.
    pub ca_file: PathBuf,
    /// File with the admin's API token.
    pub token_file: PathBuf,
    /// Kubeconfig of the admin.
    pub kubeconfig: PathBuf,
}

/// A registered cluster and its join string.
#[derive(Debug, Clone, Deserialize)]
pub struct Joining {
    /// Cluster id.
    pub id: String,
    /// Id of the cluster's tenant.
    pub tenant: String,
    /// Join string; it contains the bootstrap token.
    pub join: String,
    /// URL of the install manifest, single use.
    #[serde(rename = "agentInstallURL")]
    pub install_url: String,
}

/// A running `fairlead dev`. Its folder is also the home directory of [`Hub::cli`].
#[derive(Debug)]
pub struct Hub {
    folder: TempDir,
    ready: Ready,
    /// Command of a restart.
    again: Launch,
    /// Namespaces of the hub and of its users; `None` is this machine's own network.
    net: Option<NetNs>,
    people: Option<NetNs>,
    /// Current process; a restart replaces it.
    pub process: Process,
}

impl Hub {
    /// Starts a new hub on free ports of loopback.
    ///
    /// # Errors
    /// It does not get ready.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with::<&str>(&[]).await
    }

    /// Starts a new hub with a folder in `parent`, for a shared hub that is never dropped.
    ///
    /// # Errors
    /// As [`Hub::start`].
    pub async fn start_below(parent: &Path) -> anyhow::Result<Self> {
        Self::start_in(tempfile::tempdir_in(parent)?, &[] as &[&str]).await
    }

    /// Starts a new hub with additional flags.
    ///
    /// # Errors
    /// As [`Hub::start`].
    pub async fn start_with<A: AsRef<str>>(flags: &[A]) -> anyhow::Result<Self> {
        Self::start_in(tempfile::tempdir()?, flags).await
    }

    async fn start_in<A: AsRef<str>>(folder: TempDir, flags: &[A]) -> anyhow::Result<Self> {
        let any = "127.0.0.1:0";
        let (process, ready) = launch(dev(folder.path(), any, any, flags)?, folder.path()).await?;
        let listen = ready.url.trim_start_matches("https://");
        let admin = ready.admin_url.trim_start_matches("http://");
        Ok(Self {
            again: dev(folder.path(), listen, admin, flags)?,
            folder,
            ready,
            net: None,
            people: None,
            process,
        })
    }

    /// Kills the hub and restarts it on the same data and ports.
    ///
    /// # Errors
    /// As [`Hub::start`].
    pub async fn kill_and_restart(&mut self) -> anyhow::Result<()> {
        self.process.kill_9()?;
        self.restart().await
    }

    /// Restarts the hub after it has ended, on the same data and ports. Cancelling this future kills the hub.
    ///
    /// # Errors
    /// As [`Hub::start`].
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        match std::fs::remove_file(self.folder.path().join("ready.json")) {
            // The hub was not ready since the last start.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed?,
        }
        (self.process, self.ready) = launch(self.again.clone(), self.folder.path()).await?;
        Ok(())
    }

    /// Contents of the ready file of the latest start.
    #[must_use]
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Folder of this hub, also for files of its test.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Folder of its store and its keys.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Bearer token of its first admin.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub fn token(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(&self.ready.token_file)?
            .trim()
            .to_owned())
    }

    /// Client of its front.
    ///
    /// # Errors
    /// Its CA cannot be read.
    pub fn front(&self) -> anyhow::Result<RawClient> {
        RawClient::new(
            &self.ready.url,
            &std::fs::read_to_string(&self.ready.ca_file)?,
        )
    }

    /// Runs `fairlead ARGS` as the user of the hub's process.
    ///
    /// # Errors
    /// It cannot be started, or does not end in time.
    pub async fn cli<A: AsRef<str>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<Output> {
        let args: Vec<String> = args
            .into_iter()
            .map(|arg| arg.as_ref().to_owned())
            .collect();
        fairlead_in(self.people.as_ref(), self.folder.path(), &args, &[]).await
    }

    /// Runs `fairlead ARGS` on a terminal of this width.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn terminal(&self, args: &[&str], columns: u16) -> anyhow::Result<Terminal> {
        let line = format!("fairlead {}", args.join(" "));
        let mut command = std::process::Command::new("setsid");
        command
            .arg("--ctty")
            .arg(Launch::hub()?.program())
            .args(args);
        command.env_clear().env("TERM", "xterm");
        command.env("HOME", self.folder.path());
        Terminal::start(line, command, 24, columns)
    }

    /// Runs `fairlead cluster create`.
    ///
    /// # Errors
    /// The hub refuses.
    pub async fn create_cluster(&self, name: &str) -> anyhow::Result<Joining> {
        let created = self.cli(["cluster", "create", name, "-o", "json"]).await?;
        Ok(serde_json::from_str(&created.success()?)?)
    }

    /// Output of `fairlead cluster get -o json`.
    ///
    /// # Errors
    /// The hub refuses.
    pub async fn cluster(&self, name: &str) -> anyhow::Result<Value> {
        let shown = self.cli(["cluster", "get", name, "-o", "json"]).await?;
        Ok(serde_json::from_str(&shown.success()?)?)
    }

    /// Waits until the hub reports this state of a cluster.
    ///
    /// # Errors
    /// It does not in time.
    pub async fn wait_state(&self, name: &str, state: &str) -> anyhow::Result<()> {
        let mut last = Value::Null;
        let what = format!("{name} {state}");
        let found = eventually(READY_DEADLINE, &what, async || {
            last = self.cluster(name).await.ok()?;
            (last.pointer("/status/state")? == state).then_some(())
        });
        let found = found.await;
        found.with_context(|| {
            format!(
                "last: {last}; hub: {}",
                self.process.log().unwrap_or_default()
            )
        })
    }

    /// Writes the output of `fairlead kubeconfig` to a file in the hub's folder.
    ///
    /// # Errors
    /// The hub refuses.
    pub async fn kubeconfig(&self, name: &str, flags: &[&str]) -> anyhow::Result<PathBuf> {
        let text = self
            .cli([&["kubeconfig"], flags].concat())
            .await?
            .success()?;
        let path = self.folder.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// Name of the context of the cluster with this display name.
    #[must_use]
    pub fn context(&self, name: &str) -> String {
        format!("{name}@{}", self.ready.url.trim_start_matches("https://"))
    }

    /// kubectl through this hub, in the cluster with this display name.
    ///
    /// # Errors
    /// As [`Hub::kubeconfig`].
    pub async fn kubectl(&self, cluster: &Cluster, name: &str) -> anyhow::Result<Kubectl> {
        let kubeconfig = self.kubeconfig("kubeconfig.yaml", &[]).await?;
        let kubectl = cluster.kubectl().kubeconfig(kubeconfig);
        let kubectl = kubectl.context(self.context(name));
        Ok(match &self.people {
            Some(people) => kubectl.in_net(people),
            None => kubectl,
        })
    }

    /// Its metrics page.
    ///
    /// # Errors
    /// The admin port does not answer.
    pub async fn metrics(&self) -> anyhow::Result<Metrics> {
        let address = self.ready.admin_url.trim_start_matches("http://").parse()?;
        metrics(self.net.as_ref(), address).await
    }
}

/// Command line of `fairlead dev`.
fn dev<A: AsRef<str>>(
    folder: &Path,
    listen: &str,
    admin: &str,
    flags: &[A],
) -> anyhow::Result<Launch> {
    Ok(Launch::hub()?
        .env("HOME", folder)
        .args(["dev", "--listen", listen, "--admin", admin, "--data"])
        .args([folder.join("data")])
        .args(flags.iter().map(|flag| flag.as_ref().to_owned())))
}

async fn launch(launch: Launch, folder: &Path) -> anyhow::Result<(Process, Ready)> {
    let ready_file = folder.join("ready.json");
    let mut process = launch
        .args(["--ready-file".as_ref(), ready_file.as_os_str()])
        .spawn(folder.join("hub.log"))?;
    let ready = process.wait_for_file(&ready_file, READY_DEADLINE).await?;
    Ok((process, serde_json::from_str(&ready)?))
}

/// Runs `fairlead ARGS` with this HOME to its end.
///
/// # Errors
/// It cannot be started, or does not end in time.
pub async fn fairlead(
    home: &Path,
    args: &[String],
    env: &[(&str, &str)],
) -> anyhow::Result<Output> {
    fairlead_in(None, home, args, env).await
}

async fn fairlead_in(
    net: Option<&NetNs>,
    home: &Path,
    args: &[String],
    env: &[(&str, &str)],
) -> anyhow::Result<Output> {
    let line = format!("fairlead {}", args.join(" "));
    let mut words = net.map(ProcessLocation::entrance).unwrap_or_default();
    words.push(Launch::hub()?.program().into());
    let mut words = words.into_iter();
    let mut command = tokio::process::Command::new(words.next().unwrap_or_default());
    command.args(words).args(args).env_clear().env("HOME", home);
    command.envs(env.iter().copied());
    run_to_end(line, command, READY_DEADLINE).await
}

/// A running `fairlead agent`, in a pod or outside of any.
#[derive(Debug)]
pub struct Site {
    /// Command of a restart, without the join string.
    launch: Launch,
    log: PathBuf,
    admin: SocketAddr,
    net: Option<NetNs>,
    /// Current process; a restart replaces it.
    pub process: Process,
}

impl Site {
    /// Starts an agent for `cluster` with its identity in the hub's folder, and waits until it is connected.
    ///
    /// # Errors
    /// It does not connect.
    pub async fn start(hub: &Hub, cluster: &Cluster, joining: &Joining) -> anyhow::Result<Self> {
        let site = Self::begin(hub, cluster, &joining.join, &joining.id)?;
        hub.wait_state(&joining.id, "Connected").await?;
        Ok(site)
    }

    /// Starts an agent and waits for nothing. `name` names its folder and its log.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn begin(hub: &Hub, cluster: &Cluster, join: &str, name: &str) -> anyhow::Result<Self> {
        Self::run(hub, agent(hub, cluster, name)?, None, name, join)
    }

    /// Starts an agent in a pod, where it needs no flag, and waits for nothing.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn begin_in(hub: &Hub, pod: &Pod, join: &str, name: &str) -> anyhow::Result<Self> {
        Self::begin_in_with(hub, pod, join, name, &[])
    }

    /// As [`Site::begin_in`], with additional flags.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn begin_in_with(
        hub: &Hub,
        pod: &Pod,
        join: &str,
        name: &str,
        flags: &[&str],
    ) -> anyhow::Result<Self> {
        // As in the manifest, each pod has a UID of its own and keeps it when its container restarts.
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let uid = format!("5f0c6b0a-2b6f-4f4e-9a53-{number:012x}");
        let launch = Launch::agent()?.args(["agent"]).args(flags).inside(pod);
        Self::run(hub, launch.env("FAIRLEAD_POD_UID", uid), None, name, join)
    }

    /// As [`Site::begin_in`], with an interval for facts, such as `1s`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn begin_looking(
        hub: &Hub,
        pod: &Pod,
        join: &str,
        name: &str,
        every: &str,
    ) -> anyhow::Result<Self> {
        let launch = Launch::agent()?.args(["agent", "--facts-every", every]);
        Self::run(hub, launch.inside(pod), None, name, join)
    }

    fn run(
        hub: &Hub,
        launch: Launch,
        net: Option<NetNs>,
        name: &str,
        join: &str,
    ) -> anyhow::Result<Self> {
        let admin = free_port()?;
        let launch = launch
            .env("HOME", hub.dir())
            .env("FAIRLEAD_ADMIN", admin.to_string());
        let log = hub.dir().join(format!("{name}.log"));
        let process = launch.clone().env("FAIRLEAD_JOIN", join).spawn(&log)?;
        Ok(Self {
            launch,
            log,
            admin,
            net,
            process,
        })
    }

    /// Restarts the agent after it has ended, without the join string, since it has an identity.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.process = self.launch.clone().spawn(&self.log)?;
        Ok(())
    }

    /// Its metrics page.
    ///
    /// # Errors
    /// The admin port does not answer.
    pub async fn metrics(&self) -> anyhow::Result<Metrics> {
        metrics(self.net.as_ref(), self.admin).await
    }

    /// Number of dials so far. The log shows them too, but later.
    ///
    /// # Errors
    /// As [`Site::metrics`].
    pub async fn dials(&self) -> anyhow::Result<f64> {
        let metrics = self.metrics().await?;
        Ok(metrics.sum("fairlead_agent_dials_total", &[]))
    }

    /// A page of its admin port.
    ///
    /// # Errors
    /// As [`RawClient::get`].
    pub async fn admin_get(&self, path: &str) -> anyhow::Result<String> {
        admin_client(self.net.as_ref(), self.admin).get(path).await
    }
}

/// Command line of an agent outside of any pod.
fn agent(hub: &Hub, cluster: &Cluster, name: &str) -> anyhow::Result<Launch> {
    let state = hub.dir().join(format!("{name}.state"));
    Ok(Launch::agent()?
        .args([
            "agent".as_ref(),
            "--kubeconfig".as_ref(),
            cluster.kubeconfig().as_os_str(),
        ])
        .args(["--state".as_ref(), state.as_os_str()]))
}

/// A port that was free a moment ago. The agent does not report the port that it got.
fn free_port() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
