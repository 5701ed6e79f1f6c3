//! Plain requests while one of three hubs is killed, and while each is restarted in turn.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, Joining, Site, eventually};
use fairlead_testkit::raw::RawClient;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::{HubPair, STEP_DEADLINE, get};

/// Sessions to each other hub.
const SESSIONS_PER_HUB: f64 = 4.0;
/// Reads after the loss of a hub.
const MIN_LATER_READS: usize = 10;
/// One request of this many is a write.
const WRITE_EVERY: usize = 4;

/// Three hubs, and a cluster whose agent has links to two of them at a time.
struct HubTrio {
    // Its fields are dropped in this order.
    _site: Site,
    _pair_rest: PairRest,
    hubs: Vec<Hub>,
    token: String,
    joining: Joining,
    _cluster: Cluster,
}

/// Parts of a pair that its hubs need.
type PairRest = (fairlead_e2e::PostgresServer, tempfile::TempDir);

impl HubTrio {
    async fn start() -> anyhow::Result<Self> {
        let (cluster, pair) = tokio::try_join!(Cluster::start_lite(), HubPair::start(&[]))?;
        let three = Hub::start_server(&pair.flags).await?;
        let joining = pair.one.create_cluster("demo").await?;
        let known = [&pair.one, &pair.two, &three];
        let links = ["--links", "2"];
        let site = Site::begin_at_with(&known, &cluster, &joining, &links)?;
        let HubPair {
            one,
            two,
            token,
            _store,
            _keys,
            ..
        } = pair;
        let trio = Self {
            _site: site,
            _pair_rest: (_store, _keys),
            hubs: vec![one, two, three],
            token,
            joining,
            _cluster: cluster,
        };
        for at in 0..trio.hubs.len() {
            trio.wait_serving(at).await?;
        }
        Ok(trio)
    }

    fn hub(&self, at: usize) -> anyhow::Result<&Hub> {
        self.hubs.get(at).context("a hub")
    }

    /// Waits until this hub has links to all others and serves the cluster.
    async fn wait_serving(&self, at: usize) -> anyhow::Result<()> {
        let hub = self.hub(at)?;
        let version = format!("/k8s/clusters/{}/version?timeout=1s", self.joining.id);
        eventually(STEP_DEADLINE, "links and a request", async || {
            let sessions = hub.metrics().await.ok()?.sum("fairlead_hub_sessions", &[]);
            let (code, _) = get(hub, &self.token, &version).await.ok()?;
            (sessions == 2.0 * SESSIONS_PER_HUB && code == 200).then_some(())
        })
        .await
    }

    /// Sends requests to these hubs in turn until it is stopped.
    fn load(&self, hubs: &[usize], writes: bool) -> anyhow::Result<Load> {
        let fronts = hubs.iter().map(|&at| self.hub(at)?.front());
        let fronts = fronts.collect::<anyhow::Result<Vec<_>>>()?;
        let stop = Arc::<AtomicBool>::default();
        let answered = Arc::<AtomicUsize>::default();
        let root = format!(
            "/k8s/clusters/{}/api/v1/namespaces/default/configmaps",
            self.joining.id
        );
        let sender = LoadSender {
            fronts,
            token: self.token.clone(),
            root,
            writes,
            stop: stop.clone(),
            answered: answered.clone(),
        };
        Ok(Load {
            stop,
            answered,
            task: tokio::spawn(sender.run()),
        })
    }
}

struct LoadSender {
    fronts: Vec<RawClient>,
    token: String,
    root: String,
    writes: bool,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
}

impl LoadSender {
    /// Returns the number of requests, and the failed ones.
    async fn run(self) -> (usize, Vec<String>) {
        let (mut sent, mut failed) = (0, Vec::new());
        while !self.stop.load(Ordering::Relaxed) {
            for front in &self.fronts {
                sent += 1;
                let request = self.request(sent);
                match front.send(request).await {
                    Ok(answer) if matches!(answer.status, 200 | 201) => {}
                    Ok(answer) => failed.push(format!("{}: {}", answer.status, answer.text())),
                    Err(error) => failed.push(error.to_string()),
                }
                self.answered.fetch_add(1, Ordering::Relaxed);
            }
        }
        (sent, failed)
    }

    fn request(&self, number: usize) -> String {
        let common = format!(
            "host: 127.0.0.1\r\nauthorization: Bearer {}\r\nconnection: close\r\n",
            self.token
        );
        let root = &self.root;
        if !self.writes || !number.is_multiple_of(WRITE_EVERY) {
            return format!("GET {root}?limit=1 HTTP/1.1\r\n{common}\r\n");
        }
        let body = json!({ "metadata": { "generateName": "rolling-" }, "data": { "a": "b" } });
        let body = body.to_string();
        let length = body.len();
        format!(
            "POST {root} HTTP/1.1\r\n{common}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    }
}

struct Load {
    stop: Arc<AtomicBool>,
    /// Number of requests that have ended.
    answered: Arc<AtomicUsize>,
    task: JoinHandle<(usize, Vec<String>)>,
}

impl Load {
    async fn stop(self) -> anyhow::Result<(usize, Vec<String>)> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(self.task.await?)
    }
}

#[tokio::test]
async fn rolling_restart_fails_no_plain_request() -> anyhow::Result<()> {
    let mut trio = HubTrio::start().await?;
    for at in 0..trio.hubs.len() {
        // A load balancer sends nothing to a hub that is not ready.
        let others: Vec<usize> = (0..trio.hubs.len()).filter(|other| *other != at).collect();
        let load = trio.load(&others, true)?;
        let hub = trio.hubs.get_mut(at).context("a hub")?;
        hub.process.term()?;
        ensure!(hub.process.wait(STEP_DEADLINE).await?.success());
        hub.restart().await?;
        trio.wait_serving(at).await?;
        let (sent, failed) = load.stop().await?;
        eprintln!(
            "restart of hub {at}: {sent} requests, {} failed",
            failed.len()
        );
        ensure!(
            failed.is_empty() && sent > 0,
            "{sent}:\n{}",
            failed.join("\n")
        );
    }
    Ok(())
}

#[tokio::test]
async fn killed_hub_fails_no_read_at_the_others() -> anyhow::Result<()> {
    let mut trio = HubTrio::start().await?;
    // The agent's links are at the first two hubs.
    let load = trio.load(&[2], false)?;
    let hub = trio.hubs.first_mut().context("a hub")?;
    hub.process.kill_9()?;
    let version = format!("/k8s/clusters/{}/version", trio.joining.id);
    let status = format!("/clusters/{}", trio.joining.id);
    // The loss is in the registry, and requests go on.
    eventually(STEP_DEADLINE, "one hub less", async || {
        let three = trio.hub(2).ok()?;
        let sessions = three
            .metrics()
            .await
            .ok()?
            .sum("fairlead_hub_sessions", &[]);
        let (_, shown) = get(three, &trio.token, &status).await.ok()?;
        let connected = shown["status"]["state"] == "Connected";
        (sessions == SESSIONS_PER_HUB && connected).then_some(())
    })
    .await?;
    let before = load.answered.load(Ordering::Relaxed);
    eventually(STEP_DEADLINE, "reads after the loss", async || {
        let now = load.answered.load(Ordering::Relaxed);
        (now >= before + MIN_LATER_READS).then_some(())
    })
    .await?;
    let (sent, failed) = load.stop().await?;
    eprintln!("a killed hub: {sent} reads, {} failed", failed.len());
    ensure!(
        failed.is_empty() && sent > 0,
        "{sent}:\n{}",
        failed.join("\n")
    );
    ensure!(get(trio.hub(2)?, &trio.token, &version).await?.0 == 200);
    Ok(())
}
