//! A real API server, and the delivery engine on it.

use std::{fs, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use fairlead_api::delivery::{DeploymentReport, DeploymentState};
use fairlead_apiserver::{ApiCredentials, ApiServerConfig, Upstream};
use fairlead_delivery_agent::{
    DeliveryParts, ManifestExecutor, ProcessIdentity,
    engine::Executors,
    fence::FenceWaits,
    kube::{KubeClient, RequestRate},
};
use fairlead_e2e::Cluster;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::hub::FakeHub;

const STATE_DEADLINE: Duration = Duration::from_secs(90);

pub(crate) struct World {
    cluster: Cluster,
    upstream: Arc<Upstream>,
    /// Client of an administrator.
    pub(crate) client: KubeClient,
    pub(crate) hub: Arc<FakeHub>,
    wanted: watch::Sender<Option<String>>,
    agent: Option<JoinHandle<()>>,
}

/// A further agent, with a probe of its own.
pub(crate) struct Agent {
    wanted: watch::Sender<Option<String>>,
    task: JoinHandle<()>,
}

impl Agent {
    pub(crate) fn probe(&self, etag: String) {
        self.wanted.send_replace(Some(etag));
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl World {
    /// Starts a cluster with the objects of the install manifest that deliveries need, and an agent.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let mut world = World::alone().await?;
        world.start_agent();
        Ok(world)
    }

    /// As [`World::start`], without an agent.
    pub(crate) async fn alone() -> anyhow::Result<Self> {
        let cluster = Cluster::start_lite().await?;
        let target = ApiServerConfig::Kubeconfig {
            path: cluster.kubeconfig(),
            context: None,
        };
        let upstream = Arc::new(Upstream::new(ApiCredentials::new(&target)));
        let client = KubeClient::new(upstream.clone()).with_rate(RequestRate::new(200, 200));
        let world = Self {
            cluster,
            upstream,
            client,
            hub: Arc::default(),
            wanted: watch::Sender::new(None),
            agent: None,
        };
        for namespace in ["fairlead-delivery", "shop", "team"] {
            let object =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            world.create("/api/v1/namespaces", &object).await?;
        }
        world.account("fairlead-delivery", "deployer", true).await?;
        world.account("fairlead-delivery", "weak", false).await?;
        world.account("team", "ci", true).await?;
        Ok(world)
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> anyhow::Result<()> {
        let created = self.client.create(path, object).await;
        created.map(drop).with_context(|| path.to_owned())
    }

    async fn account(&self, namespace: &str, name: &str, is_admin: bool) -> anyhow::Result<()> {
        let metadata = json!({"name": name, "namespace": namespace});
        let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        self.create(&path, &object).await?;
        if !is_admin {
            return Ok(());
        }
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("{namespace}-{name}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        });
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        self.create(path, &binding).await
    }

    /// Starts an agent, as in a pod whose earlier processes are dead.
    pub(crate) fn start_agent(&mut self) {
        let (upstream, wanted) = (self.upstream.clone(), self.wanted.subscribe());
        self.agent = Some(spawn(upstream, self.hub.clone(), wanted, "pod"));
    }

    /// Starts a further agent in a pod of its own. `relay` is its way to the API server.
    pub(crate) fn spawn_agent(
        &self,
        pod: &str,
        hub: Arc<FakeHub>,
        relay: Option<SocketAddr>,
    ) -> anyhow::Result<Agent> {
        let upstream = match relay {
            None => self.upstream.clone(),
            Some(relay) => {
                let text = fs::read_to_string(self.cluster.kubeconfig())?;
                let text = text.replace(&self.cluster.api_url(), &format!("https://{relay}"));
                let path = self.cluster.dir().join(format!("{pod}.kubeconfig"));
                fs::write(&path, text)?;
                let context = None;
                let target = ApiServerConfig::Kubeconfig { path, context };
                Arc::new(Upstream::new(ApiCredentials::new(&target)))
            }
        };
        let wanted = watch::Sender::new(None);
        let task = spawn(upstream, hub, wanted.subscribe(), pod);
        Ok(Agent { wanted, task })
    }

    /// Address of the API server.
    pub(crate) fn api_address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.cluster.api_port()))
    }

    /// Kills the agent, and frees its Lease.
    pub(crate) async fn kill_agent(&mut self) -> anyhow::Result<()> {
        if let Some(agent) = self.agent.take() {
            agent.abort();
            let _ = agent.await;
        }
        let path =
            "/apis/coordination.k8s.io/v1/namespaces/fairlead-delivery/leases/fairlead-delivery";
        let free = json!({"spec": {"holderIdentity": ""}});
        self.client.merge_patch(path, &free).await?;
        Ok(())
    }

    /// Tells the agent about a new desired state, as a probe does.
    pub(crate) fn probe(&self, etag: String) {
        self.wanted.send_replace(Some(etag));
    }

    pub(crate) async fn until_report(
        &self,
        bundle: &str,
        is_expected: impl Fn(&DeploymentReport) -> bool,
    ) -> anyhow::Result<DeploymentReport> {
        let polling = async {
            loop {
                if let Some(report) = self.hub.report(bundle).filter(&is_expected) {
                    return report;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        let found = timeout(STATE_DEADLINE, polling).await;
        found.with_context(|| format!("{:?}", self.hub.report(bundle)))
    }

    pub(crate) async fn until_ready(&self, bundle: &str, generation: u64) -> anyhow::Result<()> {
        let is_ready = |report: &DeploymentReport| {
            report.state == DeploymentState::Ready && report.applied == generation
        };
        self.until_report(bundle, is_ready).await.map(drop)
    }

    pub(crate) async fn until_absent(&self, path: &str) -> anyhow::Result<()> {
        let polling = async {
            while self.client.get(path).await?.is_some() {
                sleep(Duration::from_millis(50)).await;
            }
            anyhow::Ok(())
        };
        timeout(STATE_DEADLINE, polling)
            .await
            .with_context(|| path.to_owned())?
    }

    /// Waits until an object exists again, with another UID.
    pub(crate) async fn until_other(&self, path: &str, uid: &Value) -> anyhow::Result<()> {
        let polling = async {
            loop {
                let found = self.client.get(path).await?;
                if found.is_some_and(|it| it["metadata"]["uid"] != *uid) {
                    return anyhow::Ok(());
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(STATE_DEADLINE, polling)
            .await
            .with_context(|| path.to_owned())?
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let found = self.client.get(path).await?;
        found.with_context(|| format!("no {path}"))
    }
}

fn spawn(
    upstream: Arc<Upstream>,
    hub: Arc<FakeHub>,
    wanted: watch::Receiver<Option<String>>,
    pod: &str,
) -> JoinHandle<()> {
    let parts = DeliveryParts {
        upstream,
        hub,
        wanted,
        process: ProcessIdentity::of_pod(pod),
        cache: None,
        executors: Executors {
            manifests: Arc::new(ManifestExecutor),
            helm: None,
        },
        waits: FenceWaits::default(),
    };
    let running = fairlead_delivery_agent::run(parts, std::future::pending());
    tokio::spawn(running)
}
