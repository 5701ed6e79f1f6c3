//! A hub, and a cluster of its own with the agent in a pod.

use std::time::Duration;

use anyhow::Context;
use fairlead_e2e::{Cluster, Hub, Joining, Kubectl, Pod, Site, admin::get_plain};

pub(crate) const STEP_DEADLINE: Duration = Duration::from_secs(20);
pub(crate) const NAMESPACE: &str = "fairlead";
const ACCOUNT: &str = "fairlead-agent";
pub(crate) const ROBOT: &str = "system:serviceaccount:fairlead:fairlead-agent";

/// A hub, and a cluster of its own with its manifest applied.
pub(crate) struct SiteWorld {
    pub(crate) cluster: Cluster,
    pub(crate) hub: Hub,
    pub(crate) joining: Joining,
    pub(crate) pod: Pod,
    pub(crate) manifest: String,
}

impl SiteWorld {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        SiteWorld::with("", &[]).await
    }

    /// `choices`: more parameters of the install URL. `namespaces` exist before the manifest is applied.
    pub(crate) async fn with(choices: &str, namespaces: &[&str]) -> anyhow::Result<Self> {
        let (cluster, hub) = tokio::try_join!(Cluster::start_lite(), Hub::start())?;
        for namespace in namespaces {
            let create = cluster.kubectl().args(["create", "namespace", namespace]);
            create.run().await?.success()?;
        }
        SiteWorld::on(cluster, hub, choices).await
    }

    /// Applies the manifest of a new cluster of this hub.
    pub(crate) async fn on(cluster: Cluster, hub: Hub, choices: &str) -> anyhow::Result<Self> {
        let joining = hub.create_cluster("pod").await?;
        let url = joining.install_url.strip_prefix("http://");
        let (address, path) = url.and_then(|url| url.split_once('/')).context("URL")?;
        let manifest = get_plain(address.parse()?, &format!("/{path}{choices}")).await?;
        let pod = Pod::install(&cluster, &manifest, NAMESPACE, ACCOUNT).await?;
        Ok(Self {
            cluster,
            hub,
            joining,
            pod,
            manifest,
        })
    }

    pub(crate) fn agent(&self, join: &str) -> anyhow::Result<Site> {
        Site::begin_in(&self.hub, &self.pod, join, "pod")
    }

    pub(crate) async fn kubectl(&self) -> anyhow::Result<Kubectl> {
        self.hub.kubectl(&self.cluster, "pod").await
    }

    /// Join string in the environment of the Deployment's container.
    pub(crate) async fn join(&self) -> anyhow::Result<String> {
        let template = "go-template={{.data.join | base64decode}}";
        let get = [
            "get",
            "secret",
            "-n",
            NAMESPACE,
            "fairlead-join",
            "-o",
            template,
        ];
        self.cluster.kubectl().args(get).run().await?.success()
    }

    pub(crate) async fn identity(&self) -> anyhow::Result<String> {
        let template =
            "go-template={{range $name, $value := .data}}{{$name}} {{end}}{{.metadata.uid}}";
        let get = [
            "get",
            "secret",
            "-n",
            NAMESPACE,
            "fairlead-identity",
            "-o",
            template,
        ];
        self.cluster.kubectl().args(get).run().await?.success()
    }
}
