//! A network with a hub on it and a registered cluster: what nearly every test begins with.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use fairlead_e2e::{Cluster, Hub, Joining, Kubectl, Launch, Site, eventually};
use serde_json::Value;

use crate::HUB;
use crate::net::Net;
use crate::pki::Ca;

/// For kubectl to work again, whatever happened.
pub const BACK: Duration = Duration::from_secs(35);

/// The hub runs in its namespace, its admin is logged in in that of the people, and the site's cluster is known as `demo`.
#[derive(Debug)]
pub struct Stage {
    pub hub: Hub,
    pub joining: Joining,
    pub cluster: &'static Cluster,
    // Last, so that it is there until all else has ended.
    pub net: Net,
}

impl Stage {
    /// # Errors
    /// The network cannot be built, or the hub does not get ready.
    pub async fn set() -> anyhow::Result<Self> {
        let net = Net::build().await?;
        let hub = Hub::serve(HUB, &net.hub, &net.user).await?;
        let joining = hub.create_cluster("demo").await?;
        Ok(Self {
            hub,
            joining,
            cluster: &net.ground.cluster,
            net,
        })
    }

    /// An agent at the site with what `more` adds, in whatever state it gets to.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn begin(&self, more: impl FnOnce(Launch) -> Launch) -> anyhow::Result<Site> {
        Site::begin_in_net(&self.hub, self.cluster, &self.joining, &self.net.site, more)
    }

    /// An agent at the site that is connected.
    ///
    /// # Errors
    /// It does not connect; the error quotes its log.
    pub async fn agent(&self, more: impl FnOnce(Launch) -> Launch) -> anyhow::Result<Site> {
        let site = self.begin(more)?;
        let connected = self.hub.wait_state("demo", "Connected").await;
        connected.with_context(|| format!("agent: {}", site.process.log().unwrap_or_default()))?;
        Ok(site)
    }

    /// The authority of somebody between, in a file for `--ca-file`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn trust(&self, ca: &Ca) -> anyhow::Result<PathBuf> {
        let file = self.net.folder().join("between-ca.pem");
        fs::write(&file, &ca.pem)?;
        Ok(file)
    }

    /// kubectl of a person, through hub and agent.
    ///
    /// # Errors
    /// The hub refuses.
    pub async fn kubectl(&self) -> anyhow::Result<Kubectl> {
        self.hub.kubectl(self.cluster, "demo").await
    }

    /// The end of what hub and agent have said, without the requests that went well: for an error's context.
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

    /// What the whole tunnel is for.
    ///
    /// # Errors
    /// kubectl fails, or there are not three nodes.
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
        let back = eventually(BACK, "a kubectl that works", async || {
            let works = self.get_nodes().await;
            let worked = works.is_ok().then_some(());
            last = works.err();
            worked
        });
        let back = back.await;
        back.with_context(|| format!("last: {last:?}"))
    }

    /// Waits until the hub says that of the cluster.
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

    /// A pod of the demo.
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
