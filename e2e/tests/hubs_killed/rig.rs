//! The world of the test: database, hubs, balancer, and thirty clusters with their agents.

use std::{fs, sync::Arc, time::Duration};

use anyhow::{Context, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use fairlead_e2e::{Cluster, Hub, Kubectl, PostgresServer, RawClient, Site, eventually};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::{balancer::HubBalancer, light::LightApi};

/// Number of hubs.
pub(crate) const HUB_COUNT: usize = 3;
/// Number of clusters, each with one agent. The first one is a real Kubernetes, for exec.
const CLUSTER_COUNT: usize = 30;
/// Sessions to each other hub.
const SESSIONS_PER_HUB: f64 = 4.0;
/// Time until all agents serve, on two busy cores.
const READY_DEADLINE: Duration = Duration::from_secs(120);
const DRAIN_TIMEOUT: &str = "60s";

/// Ways of a client to the clusters.
pub(crate) struct LoadAccess {
    pub(crate) client: RawClient,
    pub(crate) token: String,
    /// Name and id of each cluster; the first one is the real one.
    pub(crate) clusters: Vec<(String, String)>,
    pub(crate) began: Instant,
}

/// Three hubs behind one balancer, and their clusters.
pub(crate) struct BalancedHubs {
    // Its fields are dropped in this order.
    balancer: HubBalancer,
    _sites: Vec<Site>,
    hubs: Vec<Hub>,
    access: Arc<LoadAccess>,
    light: Vec<LightApi>,
    cluster: Cluster,
    _store: PostgresServer,
    folder: TempDir,
}

impl BalancedHubs {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let cluster = Cluster::start().await?;
        let store = PostgresServer::start()?;
        let folder = tempfile::tempdir()?;
        let hubs = start_hubs(&store, &folder).await?;
        let first = hubs.first().context("a hub")?;
        first.log_in().await?;
        let balancer = HubBalancer::start(&hubs).await?;
        let identity = json!({
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": { "name": "identity", "namespace": "default" }, "data": { "cluster": name_of(0) },
        });
        let create = cluster.kubectl().args(["create", "-f", "-"]);
        let create = create.stdin(identity.to_string()).run().await?;
        create.success()?;
        let known: Vec<&str> = hubs.iter().map(|hub| hub.ready().url.as_str()).collect();
        let mut flags = vec!["--links", "2"];
        flags.extend(known.iter().flat_map(|url| ["--hub", url]));
        let (mut light, mut sites, mut clusters) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..CLUSTER_COUNT {
            let name = name_of(number);
            let joining = first.create_cluster(&name).await?;
            let kubeconfig = match number {
                0 => cluster.kubeconfig(),
                _ => {
                    let api = LightApi::start(&name);
                    let path = folder.path().join(format!("{name}.kubeconfig"));
                    let (url, ca) = (api.server.url(), api.server.ca_pem());
                    fs::write(&path, kubeconfig(&url, ca, "any"))?;
                    light.push(api);
                    path
                }
            };
            let (join, id) = (&joining.join, joining.id.clone());
            sites.push(Site::begin_by(first, &kubeconfig, join, &id, &flags)?);
            clusters.push((name, id));
        }
        let access = LoadAccess {
            client: RawClient::new(&balancer.url, &balancer.ca_pem)?,
            token: first.token()?,
            clusters,
            began: Instant::now(),
        };
        let trio = Self {
            balancer,
            _sites: sites,
            hubs,
            access: Arc::new(access),
            light,
            cluster,
            _store: store,
            folder,
        };
        let path = trio.folder.path().join("kubeconfig");
        let server = format!(
            "{}/k8s/clusters/{}",
            trio.balancer.url, trio.access.clusters[0].1
        );
        let text = kubeconfig(&server, &trio.balancer.ca_pem, &trio.access.token);
        fs::write(path, text)?;
        trio.settle().await?;
        Ok(trio)
    }

    pub(crate) fn access(&self) -> Arc<LoadAccess> {
        Arc::clone(&self.access)
    }

    /// kubectl by the balancer, in the real cluster.
    pub(crate) fn kubectl(&self) -> Kubectl {
        let kubeconfig = self.folder.path().join("kubeconfig");
        self.cluster.kubectl().kubeconfig(kubeconfig)
    }

    /// Waits until each hub has its sessions to the others and serves each cluster.
    pub(crate) async fn settle(&self) -> anyhow::Result<()> {
        for at in 0..HUB_COUNT {
            self.wait_serving(at).await?;
        }
        let repeated: Vec<String> = self
            .light
            .iter()
            .flat_map(LightApi::repeated_writes)
            .collect();
        ensure!(repeated.is_empty(), "written twice: {repeated:?}");
        Ok(())
    }

    async fn wait_serving(&self, at: usize) -> anyhow::Result<()> {
        let hub = self.hub(at)?;
        let all = SESSIONS_PER_HUB * 2.0;
        eventually(READY_DEADLINE, "sessions to the other hubs", async || {
            let metrics = hub.metrics().await.ok()?;
            (metrics.sum("fairlead_hub_sessions", &[]) == all).then_some(())
        })
        .await?;
        let front = hub.front()?;
        let token = &self.access.token;
        for (name, id) in &self.access.clusters {
            let request = format!(
                "GET /k8s/clusters/{id}/version?timeout=1s HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n\
                 connection: close\r\n\r\n"
            );
            let mut last = String::new();
            let served = eventually(READY_DEADLINE, "a request", async || {
                let answer = front.send(&request).await.ok()?;
                last = answer.text();
                (answer.status == 200).then_some(())
            });
            served
                .await
                .with_context(|| format!("{name} at hub {at}"))?;
        }
        Ok(())
    }

    fn hub(&self, at: usize) -> anyhow::Result<&Hub> {
        self.hubs.get(at).context("a hub")
    }

    /// Kills a hub and starts it again at once.
    pub(crate) async fn kill_and_restart(&mut self, at: usize) -> anyhow::Result<()> {
        let hub = self.hubs.get_mut(at).context("a hub")?;
        hub.kill_and_restart().await
    }

    /// Ends a hub by SIGTERM and starts it again. Returns the time of its drain.
    pub(crate) async fn drain_and_restart(
        &mut self,
        at: usize,
        deadline: Duration,
    ) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let hub = self.hubs.get_mut(at).context("a hub")?;
        hub.process.term()?;
        ensure!(hub.process.wait(deadline).await?.success(), "hub {at}");
        let took = began.elapsed();
        hub.restart().await?;
        self.wait_serving(at).await?;
        Ok(took)
    }

    pub(crate) fn print_logs_of_balancer(&self) -> anyhow::Result<()> {
        eprintln!("HAProxy's log ends with:\n{}", self.balancer.log()?);
        Ok(())
    }
}

async fn start_hubs(store: &PostgresServer, folder: &TempDir) -> anyhow::Result<Vec<Hub>> {
    let key = folder.path().join("store.key");
    fs::write(&key, "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n")?;
    let (url, key) = (store.url(), key.display().to_string());
    let flags = [
        "--store",
        &url,
        "--store-key-file",
        &key,
        "--drain-timeout",
        DRAIN_TIMEOUT,
        "--trusted-proxy",
        "127.0.0.1/32",
    ];
    let mut hubs = Vec::new();
    for _ in 0..HUB_COUNT {
        hubs.push(Hub::start_server(&flags).await?);
    }
    Ok(hubs)
}

fn name_of(number: usize) -> String {
    format!("site-{number:02}")
}

fn kubeconfig(url: &str, ca_pem: &str, token: &str) -> String {
    let ca = BASE64_STANDARD.encode(ca_pem);
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "it", "cluster": { "server": url, "certificate-authority-data": ca } }],
        "users": [{ "name": "it", "user": { "token": token } }],
        "contexts": [{ "name": "it", "context": { "cluster": "it", "user": "it", "namespace": "default" } }],
        "current-context": "it",
    });
    config.to_string()
}
