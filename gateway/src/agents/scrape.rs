//! Metrics of sessions that are read on each scrape.

mod busiest;

use std::{
    collections::HashMap,
    iter,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use fairlead_api::ClusterId;
use fairlead_runtime::metrics::Registry;
use prometheus::{
    core::{Collector, Desc},
    proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType},
};
use time::OffsetDateTime;

use self::busiest::{BusiestClusters, HubSet};
use super::table::SessionTable;
use crate::{
    hubs::links::HubLinks,
    metrics::{Metrics, SessionState},
};

const CLUSTER_LABEL: &str = "cluster";

/// Registers the collector. `max_clusters`: limit of clusters with series of their own.
///
/// # Errors
/// The registry has metrics of these names already.
pub(crate) fn register(
    (sessions, links): (&Arc<SessionTable>, &Arc<HubLinks>),
    metrics: &Arc<Metrics>,
    max_clusters: usize,
    registry: &Registry,
) -> prometheus::Result<()> {
    let collector = SessionCollector::new((sessions, links), metrics, max_clusters)?;
    registry.register(Box::new(collector))
}

struct SessionCollector {
    sessions: Weak<SessionTable>,
    links: Weak<HubLinks>,
    metrics: Arc<Metrics>,
    certificates: PerCluster,
    busiest: Mutex<BusiestClusters>,
    traffic: ClusterDescs,
}

impl SessionCollector {
    fn new(
        (sessions, links): (&Arc<SessionTable>, &Arc<HubLinks>),
        metrics: &Arc<Metrics>,
        max_clusters: usize,
    ) -> Result<Self, prometheus::Error> {
        Ok(SessionCollector {
            sessions: Arc::downgrade(sessions),
            links: Arc::downgrade(links),
            metrics: Arc::clone(metrics),
            certificates: PerCluster::new(
                "fairlead_agent_certificate_expiry_timestamp_seconds",
                "First expiry of a certificate of the cluster's connected agents, in Unix time.",
            )?,
            busiest: Mutex::new(BusiestClusters::new(max_clusters)),
            traffic: ClusterDescs::new()?,
        })
    }

    fn hub_set(&self) -> HubSet {
        match self.links.upgrade().is_none_or(|it| it.is_empty()) {
            true => HubSet::Single,
            false => HubSet::Several,
        }
    }
}

impl Collector for SessionCollector {
    fn desc(&self) -> Vec<&Desc> {
        let traffic = self.metrics.traffic.all().into_iter();
        let mut all: Vec<&Desc> = traffic.flat_map(Collector::desc).collect();
        all.push(&self.certificates.0);
        all.extend(self.traffic.all());
        all
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let sessions = self.sessions.upgrade();
        let expiries = sessions.as_ref().map(|sessions| sessions.update_metrics());
        if expiries.is_none() {
            self.metrics
                .traffic
                .set_sessions(SessionState::ALL.map(|_| 0));
            self.metrics.traffic.streams_open.set(0);
        }
        let traffic = self.metrics.traffic.all().into_iter();
        let mut all: Vec<_> = traffic.flat_map(Collector::collect).collect();
        all.extend(expiries.map(|expiries| self.certificates.family(&expiries)));
        if let Some(sessions) = sessions {
            // Read before the lock, which another scrape may hold.
            let activities = sessions.activities();
            let mut busiest = self.busiest.lock().unwrap_or_else(PoisonError::into_inner);
            busiest.update(&activities, self.hub_set());
            all.extend(self.traffic.families(&busiest));
        }
        all
    }
}

/// A gauge with a value per cluster, in Unix time.
struct PerCluster(Desc);

impl PerCluster {
    fn new(name: &str, help: &str) -> prometheus::Result<Self> {
        desc(name, help, &[CLUSTER_LABEL]).map(PerCluster)
    }

    fn family(&self, values: &HashMap<ClusterId, OffsetDateTime>) -> MetricFamily {
        let rows = values.iter().map(|(cluster, at)| {
            let labels = [(CLUSTER_LABEL, cluster.as_str())];
            gauge(labels, at.unix_timestamp() as f64)
        });
        family(&self.0, MetricType::GAUGE, rows)
    }
}

/// Metrics of the busiest clusters.
struct ClusterDescs {
    requests: Desc,
    requests_open: Desc,
    bytes: Desc,
    rtt: Desc,
    agents: Desc,
    in_other: Desc,
}

impl ClusterDescs {
    fn new() -> prometheus::Result<Self> {
        Ok(ClusterDescs {
            requests: desc(
                "fairlead_cluster_requests_total",
                "Requests of people to the busiest clusters, at the hub with the session; `other` is the rest.",
                &[CLUSTER_LABEL],
            )?,
            requests_open: desc(
                "fairlead_cluster_requests_open",
                "Requests to the busiest clusters with an unfinished answer; `other` is the rest.",
                &[CLUSTER_LABEL],
            )?,
            bytes: desc(
                "fairlead_cluster_bytes_total",
                "Bytes of the busiest clusters' sessions, from the hub's view; `other` is the rest.",
                &[CLUSTER_LABEL, "direction"],
            )?,
            rtt: desc(
                "fairlead_cluster_rtt_duration_seconds",
                "Shortest round trip to the agents of the busiest clusters; `other` is the longest of the rest.",
                &[CLUSTER_LABEL],
            )?,
            agents: desc(
                "fairlead_cluster_agents",
                "Connected agents of the busiest clusters by version, among several hubs at the one with the first link; `other` is the rest.",
                &[CLUSTER_LABEL, "version"],
            )?,
            in_other: desc(
                "fairlead_clusters_in_other",
                "Clusters with a session at this hub that share the row `other`; 0 at each hub: a sum over hubs is complete.",
                &[],
            )?,
        })
    }

    fn all(&self) -> [&Desc; 6] {
        [
            &self.requests,
            &self.requests_open,
            &self.bytes,
            &self.rtt,
            &self.agents,
            &self.in_other,
        ]
    }

    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    fn families(&self, busiest: &BusiestClusters) -> [MetricFamily; 6] {
        let rows = || busiest.rows();
        let of = |cluster| [(CLUSTER_LABEL, cluster)];
        let bytes = rows().flat_map(|(id, row)| {
            let directions = [("in", row.traffic.bytes_in), ("out", row.traffic.bytes_out)];
            directions.map(|(direction, bytes)| {
                let labels = [(CLUSTER_LABEL, id), ("direction", direction)];
                counter(labels, bytes as f64)
            })
        });
        let rtts = rows().filter_map(|(id, row)| Some(gauge(of(id), row.rtt?.as_secs_f64())));
        let agents = rows().flat_map(|(id, row)| {
            row.agents.iter().map(move |(version, count)| {
                let labels = [(CLUSTER_LABEL, id), ("version", version.as_str())];
                gauge(labels, *count as f64)
            })
        });
        let requests = rows().map(|(id, row)| counter(of(id), row.traffic.requests as f64));
        let open = rows().map(|(id, row)| gauge(of(id), row.requests_open as f64));
        let in_other = gauge([], busiest.clusters_in_other() as f64);
        [
            family(&self.requests, MetricType::COUNTER, requests),
            family(&self.requests_open, MetricType::GAUGE, open),
            family(&self.bytes, MetricType::COUNTER, bytes),
            family(&self.rtt, MetricType::GAUGE, rtts),
            family(&self.agents, MetricType::GAUGE, agents),
            family(&self.in_other, MetricType::GAUGE, iter::once(in_other)),
        ]
    }
}

fn desc(name: &str, help: &str, labels: &[&str]) -> prometheus::Result<Desc> {
    let labels = labels.iter().map(|&label| label.to_owned()).collect();
    Desc::new(name.to_owned(), help.to_owned(), labels, HashMap::new())
}

fn row<const N: usize>(labels: [(&str, &str); N]) -> Metric {
    let pairs = labels.map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name(name.to_owned());
        pair.set_value(value.to_owned());
        pair
    });
    Metric::from_label(pairs.into())
}

fn gauge<const N: usize>(labels: [(&str, &str); N], value: f64) -> Metric {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    let mut metric = row(labels);
    metric.set_gauge(gauge);
    metric
}

fn counter<const N: usize>(labels: [(&str, &str); N], value: f64) -> Metric {
    let mut counter = Counter::default();
    counter.set_value(value);
    let mut metric = row(labels);
    metric.set_counter(counter);
    metric
}

fn family(of: &Desc, kind: MetricType, rows: impl Iterator<Item = Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(of.fq_name.clone());
    family.set_help(of.help.clone());
    family.set_field_type(kind);
    family.set_metric(rows.collect());
    family
}
