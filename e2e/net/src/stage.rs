//! A network with a hub and a registered cluster, from which nearly every test starts.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use fairlead_e2e::{Cluster, Hub, Joining, Kubectl, Launch, Site, eventually};
use fairlead_testkit::tls::TestCa;
use serde_json::Value;

use crate::HUB;
use crate::net::Net;

/// Deadline for kubectl to work again after any fault.
pub const RECOVERY_DEADLINE: Duration = Duration::from_secs(35);

/// A hub in its namespace with an admin logged in from the users' namespace, and the site's cluster
/// registered as `demo`.
#[derive(Debug)]
pub struct Stage {
    /// Hub with a logged-in admin.
    pub hub: Hub,
    /// Registered cluster with its unspent join string.
    pub joining: Joining,
    /// Kubernetes cluster of the site.
    pub cluster: &'static Cluster,
    /// Flags of each kubectl of a user.
    pub kubectl_flags: Vec<String>,
    // Declared last, so that it is dropped after everything else has ended.
    /// Namespaces and link between user, hub and site.
    pub net: Net,
}

impl Stage {
    /// Builds the stage.
    ///
    /// # Errors
    /// The network cannot be built, or the hub does not get ready.
    pub async fn set() -> anyhow::Result<Self> {
        let net = Net::build().await?;
        let hub = Hub::serve(HUB, &net.hub, &net.user).await?;
        Self::with(net, hub).await
    }

    /// Builds the stage around a hub in this network.
    ///
    /// # Errors
    /// The hub refuses.
    pub async fn with(net: Net, hub: Hub) -> anyhow::Result<Self> {
        let joining = hub.create_cluster("demo").await?;
        Ok(Self {
            hub,
            joining,
            cluster: &net.ground.cluster,
            kubectl_flags: Vec::new(),
            net,
        })
    }

    /// Starts an agent at the site, changed by `more`, and waits for nothing.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn begin(&self, more: impl FnOnce(Launch) -> Launch) -> anyhow::Result<Site> {
        Site::begin_in_net(&self.hub, self.cluster, &self.joining, &self.net.site, more)
    }

    /// Starts an agent at the site, changed by `more`, and waits until it is connected.
    ///
    /// # Errors
    /// It does not connect. The error quotes its log.
    pub async fn agent(&self, more: impl FnOnce(Launch) -> Launch) -> anyhow::Result<Site> {
        let site = self.begin(more)?;
        let connected = self.hub.wait_state("demo", "Connected").await;
        connected.with_context(|| format!("agent: {}", site.process.log().unwrap_or_default()))?;
        Ok(site)
    }

    /// Writes the certificate of `ca` to a file for `--ca-file`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn trust(&self, ca: &TestCa) -> anyhow::Result<PathBuf> {
        let file = self.net.folder().join("between-ca.pem");
        fs::write(&file, ca.pem())?;
        Ok(file)
    }

    /// A user's kubectl, through hub and agent.
    ///
    /// # Errors
    /// The hub refuses.
    pub async fn kubectl(&self) -> anyhow::Result<Kubectl> {
        let kubectl = self.hub.kubectl(self.cluster, "demo").await?;
        Ok(kubectl.args(&self.kubectl_flags))
    }

    /// Last log lines of hub and agent without successful requests, for the context of an error.
    #[must_use]
    pub fn said(&self, site: &Site) -> String {
        let end = |log: anyhow::Result<String>| {
            let log = log.unwrap_or_default();
            let lines: Vec<_> = log
                .lines()
                .filter(|line| !line.contains("outcome=\"ok\""))
                .collect();
            lines
                .get(lines.len().saturating_sub(12)..)
                .unwrap_or_default()
                .join("\n")
        };
        let (hub, agent) = (end(self.hub.process.log()), end(site.process.log()));
        format!("the hub's log ends with:\n{hub}\nand the agent's with:\n{agent}")
    }

    /// Runs `kubectl get nodes` through the tunnel.
    ///
    /// # Errors
    /// kubectl fails, or does not list three nodes.
    pub async fn get_nodes(&self) -> anyhow::Result<()> {
        let get = self.kubectl().await?.args(["get", "nodes", "-o", "name"]);
        let nodes = get.run().await?.success()?;
        anyhow::ensure!(nodes.lines().count() == 3, "{nodes}");
        Ok(())
    }

    /// Waits until kubectl works again.
    ///
    /// # Errors
    /// It does not in time.
    pub async fn works_again(&self) -> anyhow::Result<()> {
        let mut last = None;
        let back = eventually(RECOVERY_DEADLINE, "a kubectl that works", async || {
            let works = self.get_nodes().await;
            let worked = works.is_ok().then_some(());
            last = works.err();
            worked
        });
        let back = back.await;
        back.with_context(|| format!("last: {last:?}"))
    }

    /// Waits until the hub reports this state of the cluster.
    ///
    /// # Errors
    /// It does not in time.
    pub async fn state_within(&self, state: &str, deadline: Duration) -> anyhow::Result<()> {
        let mut last = Value::Null;
        let said = eventually(deadline, state, async || {
            last = self.hub.cluster("demo").await.ok()?;
            (last.pointer("/status/state")? == state).then_some(())
        });
        let said = said.await;
        said.with_context(|| format!("last: {last}"))
    }

    /// Name of a pod of the demo.
    ///
    /// # Errors
    /// There is none.
    pub async fn pod(&self) -> anyhow::Result<String> {
        let list = ["get", "pods", "-l", "app=demo", "-o", "name"];
        let pods = self.cluster.kubectl().args(list).run().await?.success()?;
        let pod = pods.lines().next().context("no pod")?;
        Ok(pod.trim_start_matches("pod/").to_owned())
    }
}
