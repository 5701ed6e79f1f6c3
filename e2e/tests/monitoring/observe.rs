//! Minutes of load and faults before a real Prometheus: each alert fires for its fault, and no other; each query of the
//! dashboards returns data.
//!
//! All times of the rules are a sixtieth of the real ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, RawClient, Site, eventually, prometheus::Prometheus, setting};
use fairlead_testkit::relay::Relay;
use time::OffsetDateTime;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, interval, sleep, sleep_until},
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    files::{dashboards, repository, rules},
    panels::{Series, draw},
};

/// Factor of the rules' times.
const SPEED_FACTOR: u64 = 60;
/// Longest time of a rule before it fires, in seconds: some wait for a day.
const MAX_FOR_SECONDS: u64 = 10;
/// Shortest range of a rate, in seconds: four scrapes.
const MIN_RANGE_SECONDS: u64 = 4;
const ALERT_DEADLINE: Duration = Duration::from_secs(90);
/// Time without a fault in which no alert may fire.
const HEALTHY_TIME: Duration = Duration::from_secs(20);
const LOAD_INTERVAL: Duration = Duration::from_millis(100);
/// Clusters whose agents are killed.
const KILLED: [&str; 3] = ["c", "d", "e"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes: make observe"]
async fn each_alert_fires_for_its_fault_and_dashboards_have_data() -> anyhow::Result<()> {
    let begin = OffsetDateTime::now_utc().unix_timestamp();
    let mut world = World::start().await?;
    let load = world.load("a", LOAD_INTERVAL)?;
    world.stays_healthy().await?;
    world.wrong_tokens().await?;
    world.broken_handshakes().await?;
    world.far_cluster().await?;
    world.disconnected_agent().await?;
    world.unreachable_api_server().await?;
    world.left_out_rows().await?;
    world.killed_agents().await?;
    world.killed_hub().await?;
    world.stays_healthy().await?;
    drop(load);
    let end = OffsetDateTime::now_utc().unix_timestamp();
    world.dashboards_have_data((begin, end)).await
}

struct World {
    hub: Hub,
    prometheus: Prometheus,
    /// Between agent `b` and the hub.
    relay: Relay,
    delay: Arc<AtomicU64>,
    /// Between agent `u` and its API server.
    api_relay: Relay,
    sites: Vec<(&'static str, Site)>,
    /// Ids of the clusters by name.
    ids: BTreeMap<&'static str, String>,
    _slow: AbortOnDropHandle<()>,
}

impl World {
    async fn start() -> anyhow::Result<Self> {
        let cluster = Cluster::shared().await?;
        let hub = Hub::start().await?;
        let address: SocketAddr = hub.ready().url.trim_start_matches("https://").parse()?;
        let delay = Arc::new(AtomicU64::new(0));
        let (slow, slow_task) = slow_relay(address, Arc::clone(&delay)).await?;
        let relay = Relay::to(slow).await;
        let by_relay = ["--hub".to_owned(), format!("https://{}", relay.address())];
        let (api_relay, kubeconfig) = unreliable_api_server(cluster, &hub).await?;
        let mut sites = Vec::new();
        let mut ids = BTreeMap::new();
        for name in ["a", "b", "c", "d", "e", "u"] {
            let joining = hub.create_cluster(name).await?;
            let flags: Vec<&str> = match name {
                "b" => by_relay.iter().map(String::as_str).collect(),
                _ => Vec::new(),
            };
            let kubeconfig = match name {
                "u" => kubeconfig.clone(),
                _ => cluster.kubeconfig(),
            };
            let site = Site::begin_by(&hub, &kubeconfig, &joining.join, &joining.id, &flags)?;
            hub.wait_state(name, "Connected").await?;
            sites.push((name, site));
            ids.insert(name, joining.id);
        }
        let admin = hub
            .ready()
            .admin_url
            .trim_start_matches("http://")
            .parse()?;
        let agents = sites.iter().map(|(_, site)| site.admin()).collect();
        let jobs = [("hub", vec![admin]), ("agent", agents)];
        let folder = hub.dir().join("prometheus");
        fs::create_dir(&folder)?;
        let prometheus = Prometheus::start(&folder, &jobs, &faster(&rules()?)).await?;
        Ok(World {
            hub,
            prometheus,
            relay,
            delay,
            api_relay,
            sites,
            ids,
            _slow: slow_task,
        })
    }

    /// Requests to a cluster, one after each `pause`, until this is dropped.
    fn load(&self, name: &str, pause: Duration) -> anyhow::Result<AbortOnDropHandle<()>> {
        let id = self.ids.get(name).context("no such cluster")?;
        let path = format!("/k8s/clusters/{id}/api/v1/namespaces/default/pods?timeout=300ms");
        self.calls(&path, &self.hub.token()?, pause)
    }

    fn calls(
        &self,
        path: &str,
        token: &str,
        pause: Duration,
    ) -> anyhow::Result<AbortOnDropHandle<()>> {
        let front = Arc::new(self.hub.front()?);
        let host = front.address();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        Ok(every(pause, move || {
            send(Arc::clone(&front), request.clone())
        }))
    }

    async fn stays_healthy(&self) -> anyhow::Result<()> {
        let begin = now();
        // A rule may only fire after its time, so there is nothing else to wait for.
        sleep(HEALTHY_TIME).await;
        let fired = self.fired_since(begin).await?;
        ensure!(fired.is_empty(), "without a fault: {fired:?}");
        Ok(())
    }

    /// Waits until these alerts fire, and no other.
    async fn fires(&self, begin: i64, expected: &[&str]) -> anyhow::Result<()> {
        let expected: BTreeSet<String> =
            expected.iter().map(|it| format!("Fairlead{it}")).collect();
        let mut last = BTreeSet::new();
        let firing = eventually(ALERT_DEADLINE, "the alerts of the fault", async || {
            last = self.firing().await.ok()?;
            last.is_superset(&expected).then_some(())
        });
        let found = firing.await;
        found.with_context(|| format!("expected {expected:?}, firing {last:?}"))?;
        let mut fired = self.fired_since(begin).await?;
        // The range ends with the last whole second.
        fired.append(&mut last);
        ensure!(fired == expected, "expected {expected:?}, fired {fired:?}");
        eprintln!("fired: {expected:?}");
        Ok(())
    }

    /// Waits until no alert fires.
    async fn recovers(&self) -> anyhow::Result<()> {
        let mut last = BTreeSet::new();
        let quiet = eventually(ALERT_DEADLINE, "no alert", async || {
            last = self.firing().await.ok()?;
            last.is_empty().then_some(())
        });
        quiet.await.with_context(|| format!("firing {last:?}"))
    }

    async fn firing(&self) -> anyhow::Result<BTreeSet<String>> {
        let firing = self
            .prometheus
            .query("ALERTS{alertstate=\"firing\"}")
            .await?;
        Ok(names(&firing))
    }

    async fn fired_since(&self, begin: i64) -> anyhow::Result<BTreeSet<String>> {
        let now = OffsetDateTime::now_utc().unix_timestamp();
        let query = "ALERTS{alertstate=\"firing\"}";
        let fired = self.prometheus.query_range(query, (begin, now), 1).await?;
        Ok(names(&fired))
    }

    async fn wrong_tokens(&self) -> anyhow::Result<()> {
        let begin = now();
        let guesses = self.calls("/v1/whoami", "wrong", Duration::from_millis(150))?;
        self.fires(begin, &["WrongTokens"]).await?;
        drop(guesses);
        self.recovers().await
    }

    async fn broken_handshakes(&self) -> anyhow::Result<()> {
        let begin = now();
        let front = Arc::new(self.hub.front()?);
        let upgrade = format!(
            "GET /connect HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: fairlead.v1\r\n\r\n",
            front.address()
        );
        let scans = every(Duration::from_millis(300), move || {
            send(Arc::clone(&front), upgrade.clone())
        });
        self.fires(begin, &["HandshakesFail"]).await?;
        drop(scans);
        self.recovers().await
    }

    async fn far_cluster(&self) -> anyhow::Result<()> {
        let begin = now();
        self.delay.store(700, Ordering::Relaxed);
        self.fires(begin, &["ClusterFar"]).await?;
        self.delay.store(0, Ordering::Relaxed);
        self.relay.control.cut();
        self.recovers().await
    }

    async fn disconnected_agent(&self) -> anyhow::Result<()> {
        let begin = now();
        self.relay.control.disconnect();
        self.fires(begin, &["AgentDisconnected", "ClusterLost"])
            .await?;
        self.relay.control.reconnect();
        self.recovers().await
    }

    async fn unreachable_api_server(&self) -> anyhow::Result<()> {
        let begin = now();
        self.api_relay.control.disconnect();
        // Probes alone are too rare for the short ranges of this test.
        let requests = self.load("u", LOAD_INTERVAL)?;
        let expected = [
            "ClusterApiUnreachable",
            "AgentApiServerFails",
            "RequestsFail",
        ];
        self.fires(begin, &expected).await?;
        drop(requests);
        self.api_relay.control.reconnect();
        self.recovers().await
    }

    async fn left_out_rows(&self) -> anyhow::Result<()> {
        let begin = now();
        let packages: serde_json::Map<_, _> = (0..250)
            .map(|n| (format!("p-{n}"), serde_json::json!({ "version": "v1" })))
            .collect();
        self.compiled(&serde_json::json!({ "packages": packages }))
            .await?;
        self.fires(begin, &["MetricsLeftOut"]).await?;
        self.compiled(&serde_json::json!({ "packages": {} }))
            .await?;
        self.recovers().await
    }

    async fn compiled(&self, meta: &serde_json::Value) -> anyhow::Result<()> {
        let front = self.hub.front()?;
        let body = meta.to_string();
        let request = format!(
            "POST /clusters/{}/compileMeta HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.ids["a"],
            front.address(),
            self.hub.token()?,
            body.len()
        );
        let answer = front.send(request).await?;
        ensure!(answer.status < 300, "{}: {}", answer.status, answer.text());
        Ok(())
    }

    async fn killed_agents(&mut self) -> anyhow::Result<()> {
        let begin = now();
        let of_killed = |it: &&mut (&str, Site)| KILLED.contains(&it.0);
        for (_, site) in self.sites.iter_mut().filter(of_killed) {
            site.process.kill_9()?;
        }
        self.fires(begin, &["ClusterLost", "ManyClustersLost"])
            .await?;
        let lost = self.load("c", LOAD_INTERVAL)?;
        let expected = ["ClusterLost", "ManyClustersLost", "RequestsFail"];
        self.fires(begin, &expected).await?;
        drop(lost);
        for (_, site) in self.sites.iter_mut().filter(of_killed) {
            site.restart()?;
        }
        self.recovers().await
    }

    async fn killed_hub(&mut self) -> anyhow::Result<()> {
        let begin = now();
        self.hub.process.kill_9()?;
        self.fires(begin, &["HubDown", "AgentDisconnected"]).await?;
        self.hub.restart().await?;
        for (name, _) in &self.sites {
            self.hub.wait_state(name, "Connected").await?;
        }
        self.recovers().await
    }

    /// Each query returns data over the whole run. Draws the dashboards into `FAIRLEAD_DASHBOARD_IMAGES`, or the folder `target`.
    async fn dashboards_have_data(&self, range: (i64, i64)) -> anyhow::Result<()> {
        let images = setting("FAIRLEAD_DASHBOARD_IMAGES");
        let images = images.map_or_else(|| repository().join("target/dashboards"), Into::into);
        fs::create_dir_all(&images)?;
        let mut empty = Vec::new();
        for dashboard in dashboards()? {
            let mut all = Vec::new();
            for panel in &dashboard.panels {
                let mut series = Vec::new();
                for (query, legend) in panel.queries.iter().zip(&panel.legends) {
                    let query = substituted(query, &self.ids["a"]);
                    let result = self.prometheus.query_range(&query, range, 2).await?;
                    let found = Series::of(&result, legend);
                    if found.is_empty() {
                        empty.push(format!("{}: {}: {query}", dashboard.title, panel.title));
                    }
                    series.extend(found);
                }
                all.push(series);
            }
            let image = images.join(format!("dashboard-{}.svg", dashboard.name));
            fs::write(&image, draw(&dashboard, &all, range))?;
            eprintln!("drawn: {}", image.display());
        }
        ensure!(empty.is_empty(), "queries without data: {empty:#?}");
        Ok(())
    }
}

/// Values of the variables that Grafana would choose.
fn substituted(query: &str, cluster: &str) -> String {
    let query = query.replace("$__rate_interval", "10s");
    query.replace("$hub", ".*").replace("$cluster", cluster)
}

/// The next whole second: the alert of an earlier fault may have fired in this one.
fn now() -> i64 {
    OffsetDateTime::now_utc().unix_timestamp() + 1
}

fn names(alerts: &[serde_json::Value]) -> BTreeSet<String> {
    let names = alerts
        .iter()
        .filter_map(|it| it.pointer("/metric/alertname")?.as_str());
    names.map(str::to_owned).collect()
}

/// Rules with shorter times.
fn faster(rules: &str) -> String {
    let mut text = String::new();
    for line in rules.lines() {
        let faster = match line.trim().strip_prefix("for: ").and_then(seconds) {
            Some(time) => format!(
                "        for: {}s",
                (time / SPEED_FACTOR).min(MAX_FOR_SECONDS)
            ),
            None => faster_ranges(line),
        };
        text += &faster;
        text.push('\n');
    }
    text
}

/// A line with shorter ranges like `[5m]`.
fn faster_ranges(line: &str) -> String {
    let mut parts = line.split('[');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let range = part.split_once(']');
        match range.and_then(|(range, rest)| Some((seconds(range)?, rest))) {
            Some((time, rest)) => {
                let time = (time / SPEED_FACTOR).max(MIN_RANGE_SECONDS);
                text += &format!("[{time}s]{rest}");
            }
            None => text += &format!("[{part}"),
        }
    }
    text
}

fn seconds(text: &str) -> Option<u64> {
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    let number: u64 = text.get(..text.len() - 1)?.parse().ok()?;
    Some(number * unit)
}

#[test]
fn times_of_rules_are_shortened() {
    let rules = "expr: rate(a[5m]) > increase(b[1h])\n        for: 2m\n        for: 1d\nc: [x]\n";
    let expected =
        "expr: rate(a[5s]) > increase(b[60s])\n        for: 2s\n        for: 10s\nc: [x]\n";
    assert_eq!(faster(rules), expected);
}

/// Sends a request, whatever becomes of it.
async fn send(front: Arc<RawClient>, request: String) {
    // Faults end requests; the alerts are the result.
    let _ = front.send(request).await;
}

/// Starts work at each `pause`, without waiting for the earlier one.
fn every<F>(pause: Duration, mut work: impl FnMut() -> F + Send + 'static) -> AbortOnDropHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ticks = interval(pause);
        loop {
            ticks.tick().await;
            drop(tokio::spawn(work()));
        }
    }))
}

/// A relay to the cluster's API server, and a kubeconfig that uses it.
async fn unreliable_api_server(
    cluster: &Cluster,
    hub: &Hub,
) -> anyhow::Result<(Relay, std::path::PathBuf)> {
    let text = fs::read_to_string(cluster.kubeconfig())?;
    let server = text.split("https://").nth(1).context("no server")?;
    let end = server.find(|c: char| !(c.is_ascii_digit() || ".:".contains(c)));
    let server = server.get(..end.context("no end")?).context("no address")?;
    let relay = Relay::to(server.parse()?).await;
    let path = hub.dir().join("unreliable.kubeconfig");
    fs::write(&path, text.replace(server, &relay.address().to_string()))?;
    Ok((relay, path))
}

/// A port that leads to `server`, with a delay in milliseconds in each direction.
async fn slow_relay(
    server: SocketAddr,
    delay: Arc<AtomicU64>,
) -> anyhow::Result<(SocketAddr, AbortOnDropHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let accepting = async move {
        while let Ok((client, _)) = listener.accept().await {
            let Ok(server) = TcpStream::connect(server).await else {
                continue;
            };
            let (client_read, client_write) = client.into_split();
            let (server_read, server_write) = server.into_split();
            drop(slowly(client_read, server_write, Arc::clone(&delay)));
            drop(slowly(server_read, client_write, Arc::clone(&delay)));
        }
    };
    Ok((address, AbortOnDropHandle::new(tokio::spawn(accepting))))
}

fn slowly(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    delay: Arc<AtomicU64>,
) -> JoinHandle<()> {
    let (send, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(1024);
    drop(tokio::spawn(async move {
        while let Some((at, piece)) = pieces.recv().await {
            sleep_until(at).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
    }));
    tokio::spawn(async move {
        let mut chunk = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut chunk).await {
            let at = Instant::now() + Duration::from_millis(delay.load(Ordering::Relaxed));
            if send.send((at, chunk[..count].to_vec())).await.is_err() {
                return;
            }
        }
    })
}
