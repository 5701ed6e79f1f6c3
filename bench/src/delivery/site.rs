//! A hub, a real API server, and an agent with its runner that delivers there.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, anyhow, bail, ensure};
use bytes::Bytes;
use fairlead_apiserver::{ApiCredentials, ApiServerConfig, Upstream};
use fairlead_e2e::Cluster;
use fairlead_exchange::{Answer, body};
use hyper::{Method, Request, StatusCode, header};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::{Args, bundles, hub_part};
use crate::{
    hub::{
        client::{BenchCaller, HubRequest},
        process::{Hub, HubHome},
    },
    launch::{Launcher, Role, Spec},
    peers::write_secret,
    proc,
};

/// Time after the start of a hub in which it releases nothing.
const QUIET_TIME: Duration = Duration::from_secs(32);
const CONNECT_DEADLINE: Duration = Duration::from_secs(60);
const READY_DEADLINE: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Interval of lists of all deployments, as for Kustomizations.
const LIST_INTERVAL: Duration = Duration::from_millis(250);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
/// Bundles that are written at the same time.
const WRITER_COUNT: usize = 8;
/// Largest answer of the API server that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
pub(super) const JSON: &str = "application/json";
pub(super) const MERGE_PATCH: &str = "application/merge-patch+json";

pub(super) struct DeliverySite {
    pub(super) hub: Hub,
    pub(super) caller: BenchCaller,
    pub(super) cluster: Cluster,
    api: Upstream,
    agent: Role,
    /// Id of the cluster at the hub.
    pub(super) id: String,
    /// Deleted after everything else has ended.
    _dir: TempDir,
}

/// Memory of agent and runner, in MB.
pub(super) struct SiteMemory {
    pub(super) now: f64,
    pub(super) peak: f64,
}

impl DeliverySite {
    /// Starts hub, API server, agent and runner, and waits until the hub releases bundles.
    pub(super) async fn start(
        args: &Args,
        launcher: &Launcher,
        helm: &std::path::Path,
    ) -> anyhow::Result<Self> {
        let dir = TempDir::with_prefix("fairlead-bench-")?;
        let home = HubHome {
            fairlead: args.fairlead.clone(),
            data: dir.path().join("hub"),
            store: None,
        };
        eprintln!("  a hub, an API server and an agent start");
        let hub = home.start(launcher).await?;
        let begun = Instant::now();
        let cluster = Cluster::start_lite().await?;
        let api = api(&cluster);
        create_namespace(&api).await?;
        hub_part::create_tenant(&hub).await?;
        let mut caller = hub.caller()?;
        let created = hub_part::create_cluster(&mut caller, &hub.token, 0).await?;
        let agent = agent_spec(args, dir.path().join("agent"), &cluster, |join| {
            write_secret(join, created.join.expose_secret())
        })?;
        let mut site = DeliverySite {
            hub,
            caller,
            cluster,
            api,
            agent: launcher.run(&agent.arg("--helm").arg(helm))?,
            id: created.id.to_string(),
            _dir: dir,
        };
        site.until_connected().await?;
        sleep(QUIET_TIME.saturating_sub(begun.elapsed())).await;
        Ok(site)
    }

    async fn until_connected(&mut self) -> anyhow::Result<()> {
        let request = HubRequest::get(format!("/clusters/{}", self.id));
        let deadline = Instant::now() + CONNECT_DEADLINE;
        loop {
            self.agent.alive()?;
            let answer = self.caller.good(&request, &self.hub.token).await?;
            let shown: Value = serde_json::from_slice(&answer.body)?;
            if shown.to_string().contains("\"Connected\"") {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "agent not connected: {shown}");
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Writes bundles of plain objects; returns once all are written.
    pub(super) async fn deploy(&self, count: usize, objects: usize) -> anyhow::Result<()> {
        let numbers = |writer: usize| (writer..count).step_by(WRITER_COUNT);
        let writing = (0..WRITER_COUNT).map(|writer| async move {
            let mut caller = self.hub.caller()?;
            for number in numbers(writer) {
                let files = bundles::manifests(number, objects);
                let content = bundles::upload(&mut caller, &self.hub, &files).await?;
                let document = bundles::document(&content.id);
                bundles::put(&mut caller, &self.hub, &bundles::id(number), &document).await?;
            }
            anyhow::Ok(())
        });
        futures_util::future::try_join_all(writing).await.map(drop)
    }

    /// Waits until this number of deployments is ready.
    pub(super) async fn until_ready(&mut self, count: usize) -> anyhow::Result<()> {
        let path = format!("/v1/clusters/{}/deployments", self.id);
        let begun = Instant::now();
        let mut next = begun + PROGRESS_INTERVAL;
        loop {
            self.agent.alive()?;
            // A short interval would cost the hub as much as the deployments do.
            sleep(LIST_INTERVAL).await;
            let list = self.get(&path).await?;
            let items = list.get("items").and_then(Value::as_array);
            let items = items.into_iter().flatten();
            let unready = items.clone().find(|it| !is_ready(it, None));
            let ready = items.filter(|it| is_ready(it, None)).count();
            if ready >= count {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < READY_DEADLINE,
                self.agent
                    .failed(&format!("{ready} of {count} ready; {unready:?}"))
            );
            if Instant::now() > next {
                eprintln!("  {ready} of {count} deployments ready");
                next += PROGRESS_INTERVAL;
            }
        }
    }

    /// A deployment as the hub shows it.
    pub(super) async fn deployment(&mut self, bundle: &str) -> anyhow::Result<Value> {
        let path = format!("/v1/clusters/{}/deployments/{bundle}", self.id);
        self.get(&path).await
    }

    /// Waits until this generation of a bundle is ready.
    pub(super) async fn until_applied(
        &mut self,
        bundle: &str,
        generation: u64,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_DEADLINE;
        loop {
            // A new bundle has no deployment at first.
            let shown = self.deployment(bundle).await.unwrap_or_default();
            if is_ready(&shown, Some(generation)) {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                self.agent
                    .failed(&format!("{bundle} is not ready: {shown}"))
            );
            sleep(POLL_INTERVAL).await;
        }
    }

    /// A document of the hub.
    pub(super) async fn get(&mut self, path: &str) -> anyhow::Result<Value> {
        let request = HubRequest::get(path);
        let answer = self.caller.good(&request, &self.hub.token).await?;
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// An object of the cluster.
    pub(super) async fn object(&self, path: &str) -> anyhow::Result<Value> {
        let (status, body) = request(&self.api, Method::GET, path, JSON, &Value::Null).await?;
        ensure!(status.is_success(), "GET {path}: {status}");
        Ok(serde_json::from_slice(&body)?)
    }

    /// Changes an object of the cluster as another client.
    pub(super) async fn patch(&self, path: &str, patch: &Value) -> anyhow::Result<()> {
        let changed = request(&self.api, Method::PATCH, path, MERGE_PATCH, patch);
        let (status, body) = changed.await?;
        ensure!(
            status.is_success(),
            "PATCH {path}: {status}: {}",
            String::from_utf8_lossy(&body)
        );
        Ok(())
    }

    pub(super) fn memory(&self) -> anyhow::Result<SiteMemory> {
        let agent = self.agent.pid();
        let mut memory = SiteMemory {
            now: 0.0,
            peak: 0.0,
        };
        let runner = fairlead_e2e::children(agent)?;
        ensure!(!runner.is_empty(), "the agent has no runner");
        for pid in runner.into_iter().chain([agent]) {
            memory.now += proc::memory(pid)? as f64 / 1e6;
            memory.peak += proc::peak_memory(pid)? as f64 / 1e6;
        }
        Ok(memory)
    }

    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.agent.stop().await?;
        self.hub.stop().await
    }
}

/// True if the wanted generation, or this one, is applied and healthy.
fn is_ready(deployment: &Value, generation: Option<u64>) -> bool {
    let number = |name: &str| deployment.pointer(name).and_then(Value::as_u64);
    let applied = number("/generation/applied");
    deployment.get("state") == Some(&json!("Ready"))
        && applied.is_some()
        && applied == generation.or_else(|| number("/generation/wanted"))
}

/// Client of the API server as its administrator.
pub(super) fn api(cluster: &Cluster) -> Upstream {
    let target = ApiServerConfig::Kubeconfig {
        path: cluster.kubeconfig(),
        context: None,
    };
    Upstream::new(ApiCredentials::new(&target))
}

/// Sends a request to the API server; `null` is no body.
pub(super) async fn request(
    api: &Upstream,
    method: Method,
    path: &str,
    content_type: &str,
    document: &Value,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::ACCEPT, JSON);
    let request = match document {
        Value::Null => request.body(body::empty())?,
        document => request
            .header(header::CONTENT_TYPE, content_type)
            .body(body::full(document.to_string()))?,
    };
    let Answer::Response(response) = api.send(request, Some(CONNECT_DEADLINE)).await? else {
        bail!("the API server upgraded a request");
    };
    let status = response.status();
    let read = body::read(response.into_body(), MAX_ANSWER_BYTES).await;
    Ok((status, read.map_err(|error| anyhow!("{error}"))?))
}

pub(super) async fn create_namespace(api: &Upstream) -> anyhow::Result<()> {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": bundles::NAMESPACE },
    });
    let created = request(api, Method::POST, "/api/v1/namespaces", JSON, &object);
    let (status, body) = created.await?;
    ensure!(
        status == StatusCode::CREATED,
        "namespace: {status}: {}",
        String::from_utf8_lossy(&body)
    );
    Ok(())
}

/// Command of an agent that delivers, without facts: their requests would count as those of deliveries.
fn agent_spec(
    args: &Args,
    state: PathBuf,
    cluster: &Cluster,
    write_join: impl FnOnce(&std::path::Path) -> anyhow::Result<()>,
) -> anyhow::Result<Spec> {
    let join = state.with_extension("join");
    write_join(&join).context("writing the join string")?;
    Ok(Spec::new("agent", &args.fairlead)
        .args(["agent", "--delivery", "on", "--facts-every", "0s", "--join"])
        .arg(format!("@{}", join.display()))
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig())
        .arg("--state")
        .arg(state))
}
