//! Hubs and sites as child processes, started by the same commands as a user's.

mod server;
mod site;

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;
use tempfile::{NamedTempFile, TempDir};
use tokio::process::Command;

use fairlead_testkit::process::{Launch, Process, ProcessLocation};
use fairlead_testkit::raw::RawClient;
use fairlead_testkit::reserved_port::ReservedPort;
use fairlead_testkit::wait::eventually;

use crate::admin::{Metrics, metrics};
use crate::kube::Cluster;
use crate::kubectl::{Kubectl, Output, run_to_end};
use crate::netns::NetNs;
use crate::pty::Terminal;

pub use self::site::Site;

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
    /// Kubeconfig of the admin; only a dev hub has one.
    pub kubeconfig: Option<PathBuf>,
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
    ready: Ready,
    /// Command of a restart.
    again: Launch,
    /// Ports that a restart uses again.
    _ports: Vec<ReservedPort>,
    /// Namespaces of the hub and of its users; `None` is this machine's own network.
    net: Option<NetNs>,
    people: Option<NetNs>,
    /// Current process; a restart replaces it.
    pub process: Process,
    // Dropped last: a running hub would write to its folder again.
    folder: TempDir,
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
        Self::start_in(tempfile::tempdir_in(parent)?, &[] as &[&str], &[]).await
    }

    /// Starts a new hub with additional flags.
    ///
    /// # Errors
    /// As [`Hub::start`].
    pub async fn start_with<A: AsRef<str>>(flags: &[A]) -> anyhow::Result<Self> {
        Self::start_in(tempfile::tempdir()?, flags, &[]).await
    }

    /// As [`Hub::start_with`], with additional variables of its environment.
    ///
    /// # Errors
    /// As [`Hub::start`].
    pub async fn start_with_env<A: AsRef<str>>(
        flags: &[A],
        env: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        Self::start_in(tempfile::tempdir()?, flags, env).await
    }

    async fn start_in<A: AsRef<str>>(
        folder: TempDir,
        flags: &[A],
        env: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let with_env = |launch: Launch| {
            let add = |launch: Launch, (name, value): &(&str, &str)| launch.env(name, value);
            env.iter().fold(launch, add)
        };
        let ports = vec![ReservedPort::new()?, ReservedPort::new()?];
        let again = with_env(dev(folder.path(), &ports, flags)?);
        let (process, ready) = launch(again.clone(), folder.path()).await?;
        Ok(Self {
            again,
            folder,
            ready,
            _ports: ports,
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
        self.restart_with(&[]).await
    }

    /// As [`Hub::restart`], with additional flags for this start.
    ///
    /// # Errors
    /// As [`Hub::start`].
    pub async fn restart_with(&mut self, flags: &[&str]) -> anyhow::Result<()> {
        match std::fs::remove_file(self.folder.path().join("ready.json")) {
            // The hub was not ready since the last start.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed?,
        }
        let again = self.again.clone().args(flags);
        (self.process, self.ready) = launch(again, self.folder.path()).await?;
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
        self.cli_within(READY_DEADLINE, args).await
    }

    /// Runs `fairlead ARGS` that waits for clusters.
    ///
    /// # Errors
    /// It cannot be started, or does not end within the deadline.
    pub async fn cli_within<A: AsRef<str>>(
        &self,
        deadline: Duration,
        args: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<Output> {
        let args: Vec<String> = args
            .into_iter()
            .map(|arg| arg.as_ref().to_owned())
            .collect();
        let (line, command) = command_line(self.people.as_ref(), self.folder.path(), &args)?;
        run_to_end(line, command, deadline).await
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
        // Replaced whole: a kubectl that was started a moment ago may be reading it.
        let mut draft = NamedTempFile::new_in(self.folder.path())?;
        draft.write_all(text.as_bytes())?;
        draft.persist(&path)?;
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

/// Command line of `fairlead dev`. The first port is that of the front, the second that of the admin port.
fn dev<A: AsRef<str>>(
    folder: &Path,
    ports: &[ReservedPort],
    flags: &[A],
) -> anyhow::Result<Launch> {
    let names = ["--listen", "--admin"].into_iter().zip(ports);
    let listening = names.flat_map(|(name, port)| [name.to_owned(), port.address().to_string()]);
    Ok(Launch::hub()?
        .env("HOME", folder)
        .args(["dev"])
        .args(listening)
        .args(["--data".as_ref(), folder.join("data").as_os_str()])
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
    let (line, mut command) = command_line(None, home, args)?;
    command.envs(env.iter().copied());
    run_to_end(line, command, READY_DEADLINE).await
}

/// Command `fairlead ARGS` with this HOME, and its text.
fn command_line(
    net: Option<&NetNs>,
    home: &Path,
    args: &[String],
) -> anyhow::Result<(String, Command)> {
    let line = format!("fairlead {}", args.join(" "));
    let mut words = net.map(ProcessLocation::entrance).unwrap_or_default();
    words.push(Launch::hub()?.program().into());
    let mut words = words.into_iter();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).args(args).env_clear().env("HOME", home);
    Ok((line, command))
}
