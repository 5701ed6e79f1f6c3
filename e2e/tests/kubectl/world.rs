//! Shared parts of this test binary: a cluster, a hub, and an agent as the install manifest runs it.

use std::path::PathBuf;

use anyhow::Context;
use fairlead_e2e::{Cluster, Hub, Kubectl, Pod, Site, admin::get_plain, eventually};
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::STEP_DEADLINE;

/// Service account of the install manifest, and the only rights of the agent.
pub(crate) const AGENT: &str = "system:serviceaccount:fairlead:fairlead-agent";
/// User of the hub's first admin in a cluster.
pub(crate) const USER: &str = "fairlead:admin";
pub(crate) const GROUPS: [&str; 2] = ["fairlead:admin", "fairlead:tenant:t-default:admin"];

/// User that the agent permits admins to impersonate.
pub(crate) const LISTED: &str = "fairlead:someone";

/// Route of a call to the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallRoute {
    /// Directly, as the cluster's administrator who impersonates the same user, since a user's rights are
    /// part of many answers.
    Direct,
    /// Through the hub, with the cluster in the path of the URL.
    Path,
    /// Through the hub, with the cluster in the TLS server name.
    Name,
}

impl CallRoute {
    pub(crate) const ALL: [CallRoute; 3] = [CallRoute::Direct, CallRoute::Path, CallRoute::Name];
    pub(crate) const TUNNELLED: [CallRoute; 2] = [CallRoute::Path, CallRoute::Name];

    /// Tag for object names. All tags have one length, because tables are aligned by names.
    pub(crate) fn tag(self) -> &'static str {
        match self {
            CallRoute::Direct => "way-1",
            CallRoute::Path => "way-2",
            CallRoute::Name => "way-3",
        }
    }
}

pub(crate) struct KubectlWorld {
    pub(crate) cluster: &'static Cluster,
    pub(crate) hub: Hub,
    pub(crate) id: String,
    by_path: PathBuf,
    by_name: PathBuf,
    pods: Vec<String>,
    _site: Site,
    _pod: Pod,
}

impl KubectlWorld {
    pub(crate) async fn shared() -> anyhow::Result<&'static Self> {
        static SHARED: OnceCell<KubectlWorld> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    async fn start() -> anyhow::Result<Self> {
        let cluster = Cluster::shared().await?;
        // The next run deletes the cluster's folder, since a shared cluster is never dropped.
        let hub = Hub::start_below(cluster.dir()).await?;
        let joining = hub.create_cluster("demo").await?;
        let url = joining.install_url.strip_prefix("http://");
        let (address, path) = url.and_then(|url| url.split_once('/')).context("URL")?;
        let manifest = get_plain(address.parse()?, &format!("/{path}")).await?;
        let pod = Pod::install(cluster, &manifest, "fairlead", "fairlead-agent").await?;
        let flags = ["--allow-as", LISTED];
        let site = Site::begin_in_with(&hub, &pod, &joining.join, "demo", &flags)?;
        hub.wait_state(&joining.id, "Connected").await?;
        let flags = |address| ["--cluster", joining.id.as_str(), "--address", address];
        Ok(Self {
            cluster,
            by_path: hub.kubeconfig("path.kubeconfig", &flags("path")).await?,
            by_name: hub.kubeconfig("name.kubeconfig", &flags("name")).await?,
            pods: pods(cluster).await?,
            id: joining.id,
            hub,
            _site: site,
            _pod: pod,
        })
    }

    pub(crate) fn kubectl(&self, way: CallRoute) -> Kubectl {
        let kubectl = self.cluster.kubectl();
        match way {
            CallRoute::Direct => {
                let groups = GROUPS.map(|group| format!("--as-group={group}"));
                kubectl.args([format!("--as={USER}")]).args(groups)
            }
            CallRoute::Path => kubectl.kubeconfig(&self.by_path),
            CallRoute::Name => kubectl.kubeconfig(&self.by_name),
        }
    }

    /// Server URL in the kubeconfig of that route.
    pub(crate) fn server(&self, way: CallRoute) -> String {
        match way {
            CallRoute::Direct => self.cluster.api_url(),
            CallRoute::Path => format!("{}/k8s/clusters/{}", self.hub.ready().url, self.id),
            CallRoute::Name => self.hub.ready().url.clone(),
        }
    }

    /// One of the three pods of the Deployment `demo`. Tests leave traces in pods: 0 is for exec and
    /// port-forward, 1 for attach and logs, 2 for cp and long calls.
    pub(crate) fn pod(&self, number: usize) -> &str {
        self.pods.get(number).expect("demo has three pods")
    }

    /// Pods of an exec and of other long calls. A test counts the forwards to pod 0, and another one ends the log of pod 1.
    pub(crate) fn pods_of_calls(&self) -> [&str; 2] {
        [self.pod(0), self.pod(2)]
    }

    /// Creates an empty namespace for one test.
    pub(crate) async fn namespace(&self, name: &str) -> anyhow::Result<()> {
        let create = self.cluster.kubectl().args(["create", "namespace", name]);
        create.run().await?.success()?;
        // Initial objects of a namespace appear a moment later, and pods need them.
        eventually(STEP_DEADLINE, "its service account", async || {
            let get = ["get", "serviceaccount", "default", "-n", name];
            let get = self.cluster.kubectl().args(get).run().await.ok()?;
            get.status.success().then_some(())
        })
        .await
    }

    /// Audited requests of the agent that `what` selects, once there are enough.
    pub(crate) async fn audited(
        &self,
        enough: usize,
        what: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Vec<Value>> {
        let (agent, mut found) = (Value::from(AGENT), 0);
        let events = eventually(STEP_DEADLINE, "events in the audit log", async || {
            let mut events = self.cluster.audit().ok()?;
            events.retain(|event| event.pointer("/user/username") == Some(&agent) && what(event));
            found = events.len();
            (found >= enough).then_some(events)
        });
        let events = events.await;
        events.with_context(|| format!("{found} of {enough}"))
    }
}

async fn pods(cluster: &Cluster) -> anyhow::Result<Vec<String>> {
    let get = ["get", "pods", "-l", "app=demo", "-o", "name"];
    let text = cluster.kubectl().args(get).run().await?.success()?;
    let names = text.lines().map(|line| line.trim_start_matches("pod/"));
    Ok(names.map(str::to_owned).collect())
}
