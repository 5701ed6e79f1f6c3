//! Agents as child processes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use fairlead_testkit::process::{Launch, Process};
use fairlead_testkit::reserved_port::ReservedPort;

use super::{Hub, Joining};
use crate::admin::{Metrics, admin_client, metrics};
use crate::kube::Cluster;
use crate::netns::NetNs;
use crate::pod::Pod;

/// A running `fairlead agent`, in a pod or outside of any.
#[derive(Debug)]
pub struct Site {
    /// Command of a restart, without the join string.
    launch: Launch,
    log: PathBuf,
    /// The agent does not report the port that it got.
    admin: ReservedPort,
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
        Self::begin_with(hub, cluster, join, name, &[])
    }

    /// As [`Site::begin`], with additional flags.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn begin_with(
        hub: &Hub,
        cluster: &Cluster,
        join: &str,
        name: &str,
        flags: &[&str],
    ) -> anyhow::Result<Self> {
        Self::begin_by(hub, &cluster.kubeconfig(), join, name, flags)
    }

    /// As [`Site::begin_with`], with a kubeconfig of the caller's.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn begin_by(
        hub: &Hub,
        kubeconfig: &Path,
        join: &str,
        name: &str,
        flags: &[&str],
    ) -> anyhow::Result<Self> {
        let launch = agent(hub, kubeconfig, name)?.args(flags);
        Self::run(hub, launch, None, name, join)
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

    /// Starts an agent in a pod without a join string.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn begin_waiting(hub: &Hub, pod: &Pod, name: &str, flags: &[&str]) -> anyhow::Result<Self> {
        let launch = Launch::agent()?.args(["agent"]).args(flags).inside(pod);
        Self::run_with(hub, launch, None, name, None)
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

    /// As [`Site::begin_in_with`], behind a proxy (`HTTPS_PROXY`).
    ///
    /// # Errors
    /// It cannot be started.
    pub fn begin_behind(
        hub: &Hub,
        (pod, proxy): (&Pod, Option<&str>),
        join: &str,
        name: &str,
        flags: &[&str],
    ) -> anyhow::Result<Self> {
        let mut launch = Launch::agent()?.args(["agent"]).args(flags).inside(pod);
        if let Some(proxy) = proxy {
            launch = launch.env("HTTPS_PROXY", proxy);
        }
        let uid = "5f0c6b0a-2b6f-4f4e-9a53-f00000000001";
        Self::run(hub, launch.env("FAIRLEAD_POD_UID", uid), None, name, join)
    }

    pub(super) fn run(
        hub: &Hub,
        launch: Launch,
        net: Option<NetNs>,
        name: &str,
        join: &str,
    ) -> anyhow::Result<Self> {
        Self::run_with(hub, launch, net, name, Some(join))
    }

    fn run_with(
        hub: &Hub,
        launch: Launch,
        net: Option<NetNs>,
        name: &str,
        join: Option<&str>,
    ) -> anyhow::Result<Self> {
        let admin = ReservedPort::new()?;
        let launch = launch
            .env("HOME", hub.dir())
            .env("FAIRLEAD_ADMIN", admin.address().to_string());
        let log = hub.dir().join(format!("{name}.log"));
        let first = match join {
            Some(join) => launch.clone().env("FAIRLEAD_JOIN", join),
            None => launch.clone(),
        };
        let process = first.spawn(&log)?;
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
        metrics(self.net.as_ref(), self.admin()).await
    }

    /// Address of its admin port.
    #[must_use]
    pub fn admin(&self) -> SocketAddr {
        self.admin.address()
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
    /// As [`RawClient::get`](fairlead_testkit::raw::RawClient::get).
    pub async fn admin_get(&self, path: &str) -> anyhow::Result<String> {
        let client = admin_client(self.net.as_ref(), self.admin());
        client.get(path).await
    }
}

/// Command line of an agent outside of any pod.
pub(super) fn agent(hub: &Hub, kubeconfig: &Path, name: &str) -> anyhow::Result<Launch> {
    let state = hub.dir().join(format!("{name}.state"));
    Ok(Launch::agent()?
        .args([
            "agent".as_ref(),
            "--kubeconfig".as_ref(),
            kubeconfig.as_os_str(),
        ])
        .args(["--state".as_ref(), state.as_os_str()]))
}
