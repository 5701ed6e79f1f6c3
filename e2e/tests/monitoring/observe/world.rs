//! A hub, its agents and a Prometheus that scrapes them, with requests and the state of the alerts.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::SocketAddr,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use anyhow::{Context, ensure};
use fairlead_e2e::{Cluster, Hub, RawClient, Site, eventually, prometheus::Prometheus};
use fairlead_testkit::relay::Relay;
use time::OffsetDateTime;
use tokio::time::{Instant, interval, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use super::{
    certified_hub::CertifiedHub, frail_hub::FrailHub, narrow_relay::NarrowRelay, rules::faster,
    slow_relay::slow_relay,
};
use crate::files::{alerts, rules};

const ALERT_DEADLINE: Duration = Duration::from_secs(90);
/// Time without a fault in which no alert may fire.
const HEALTHY_TIME: Duration = Duration::from_secs(12);
/// Clusters whose agents are killed, and whose links break again and again.
pub(super) const UNSTABLE: [&str; 3] = ["c", "d", "e"];

pub(super) struct World {
    pub(super) hub: Hub,
    pub(super) prometheus: Prometheus,
    /// Between agent `b` and the hub.
    pub(super) relay: Relay,
    pub(super) delay: Arc<AtomicU64>,
    /// Between the agents of [`UNSTABLE`] and the hub.
    pub(super) unstable: Relay,
    /// Between agent `l`, which has two links, and the hub.
    pub(super) narrow: NarrowRelay,
    /// Between agent `u` and its API server.
    pub(super) api_relay: Relay,
    pub(super) sites: Vec<(&'static str, Site)>,
    /// Ids of the clusters by name.
    pub(super) ids: BTreeMap<&'static str, String>,
    pub(super) frail: FrailHub,
    pub(super) certified: CertifiedHub,
    _slow: AbortOnDropHandle<()>,
}

impl World {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let cluster = Cluster::shared().await?;
        let hub = Hub::start().await?;
        let address: SocketAddr = hub.ready().url.trim_start_matches("https://").parse()?;
        let delay = Arc::new(AtomicU64::new(0));
        let (slow, slow_task) = slow_relay(address, Arc::clone(&delay)).await?;
        let relay = Relay::to(slow).await;
        let unstable = Relay::to(address).await;
        let narrow = NarrowRelay::to(address).await?;
        let two_links = format!("https://{}", narrow.address());
        let two_links = ["--hub", &two_links, "--links", "2"];
        let by = |relay: &Relay| ["--hub".to_owned(), format!("https://{}", relay.address())];
        let (by_relay, by_unstable) = (by(&relay), by(&unstable));
        let (api_relay, kubeconfig) = unreliable_api_server(cluster, &hub).await?;
        let mut sites = Vec::new();
        let mut ids = BTreeMap::new();
        for name in ["a", "b", "c", "d", "e", "l", "u"] {
            let joining = hub.create_cluster(name).await?;
            let flags: Vec<&str> = match name {
                "b" => by_relay.iter().map(String::as_str).collect(),
                "l" => two_links.to_vec(),
                name if UNSTABLE.contains(&name) => {
                    by_unstable.iter().map(String::as_str).collect()
                }
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
        let frail = FrailHub::start(cluster).await?;
        let certified = CertifiedHub::start().await?;
        let hubs = vec![admin(&hub)?, admin(&frail.hub)?, certified.admin];
        let agents = sites.iter().map(|(_, site)| site.admin()).collect();
        let jobs = [("hub", hubs), ("agent", agents)];
        let folder = hub.dir().join("prometheus");
        fs::create_dir(&folder)?;
        let prometheus = Prometheus::start(&folder, &jobs, &faster(&rules()?)).await?;
        Ok(World {
            hub,
            prometheus,
            relay,
            delay,
            unstable,
            narrow,
            api_relay,
            sites,
            ids,
            frail,
            certified,
            _slow: slow_task,
        })
    }

    /// Requests to a cluster, one after each `pause`, until this is dropped.
    pub(super) fn load(
        &self,
        name: &str,
        pause: Duration,
    ) -> anyhow::Result<AbortOnDropHandle<()>> {
        let id = self.ids.get(name).context("no such cluster")?;
        let path = format!("/k8s/clusters/{id}/api/v1/namespaces/default/pods?timeout=300ms");
        calls(&self.hub, &path, &self.hub.token()?, pause)
    }

    /// No alert fires for the shortest time, and until `end`.
    pub(super) async fn stays_healthy(&self, end: Instant) -> anyhow::Result<()> {
        let begin = now();
        // A rule may only fire after its time, so there is nothing else to wait for.
        sleep_until(end.max(Instant::now() + HEALTHY_TIME)).await;
        let fired = self.fired_since(begin).await?;
        ensure!(fired.is_empty(), "without a fault: {fired:?}");
        Ok(())
    }

    /// Waits until these alerts fire, and no other.
    pub(super) async fn fires(&self, begin: i64, expected: &[&str]) -> anyhow::Result<()> {
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
    pub(super) async fn recovers(&self) -> anyhow::Result<()> {
        let mut last = BTreeSet::new();
        let quiet = eventually(ALERT_DEADLINE, "no alert", async || {
            last = self.firing().await.ok()?;
            last.is_empty().then_some(())
        });
        quiet.await.with_context(|| format!("firing {last:?}"))
    }

    /// Each alert has fired since `begin`, except these.
    pub(super) async fn all_fired(&self, begin: i64, except: &[&str]) -> anyhow::Result<()> {
        let fired = self.fired_since(begin).await?;
        let names = alerts(&rules()?)?.into_iter().map(|it| it.name);
        let missing: Vec<_> = names.filter(|it| !fired.contains(it)).collect();
        ensure!(missing == except, "not fired: {missing:?}");
        Ok(())
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
}

/// The next whole second: the alert of an earlier fault may have fired in this one.
pub(super) fn now() -> i64 {
    OffsetDateTime::now_utc().unix_timestamp() + 1
}

fn names(alerts: &[serde_json::Value]) -> BTreeSet<String> {
    let names = alerts
        .iter()
        .filter_map(|it| it.pointer("/metric/alertname")?.as_str());
    names.map(str::to_owned).collect()
}

fn admin(hub: &Hub) -> anyhow::Result<SocketAddr> {
    let address = hub.ready().admin_url.trim_start_matches("http://");
    Ok(address.parse()?)
}

/// Requests to a hub, one after each `pause`, until the guard is dropped.
pub(super) fn calls(
    hub: &Hub,
    path: &str,
    token: &str,
    pause: Duration,
) -> anyhow::Result<AbortOnDropHandle<()>> {
    let front = Arc::new(hub.front()?);
    let host = front.address();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    Ok(every(pause, move || {
        send(Arc::clone(&front), request.clone())
    }))
}

/// Sends a request, whatever becomes of it.
pub(super) async fn send(front: Arc<RawClient>, request: String) {
    // Faults end requests; the alerts are the result.
    let _ = front.send(request).await;
}

/// Starts work at each `pause`, without waiting for the earlier one.
pub(super) fn every<F>(
    pause: Duration,
    mut work: impl FnMut() -> F + Send + 'static,
) -> AbortOnDropHandle<()>
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
