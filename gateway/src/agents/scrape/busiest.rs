//! Series of the busiest clusters. All others share one row, so that a large fleet does not become an endless number of
//! series.
//!
//! Each scrape adds the traffic since the last one to the row that the cluster has now. A cluster that gets a row of its
//! own, or loses it, therefore moves no traffic of the past from one row to the other.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use fairlead_api::ClusterId;

use crate::agents::{entry::Traffic, group::ClusterActivity};

/// Row of all clusters without one of their own. Ids of clusters start with `c-`.
const OTHER: &str = "other";
/// Version that is no version. Agents report it, and text of agents must not become a label.
const UNKNOWN: &str = "unknown";
/// Limit of versions among the labels.
const MAX_VERSIONS: usize = 20;
/// Weight of a request beside that of a byte.
const REQUEST_WEIGHT: u64 = 1024;

/// Counts of one row.
#[derive(Debug, Default)]
pub(super) struct ClusterRow {
    pub(super) traffic: Traffic,
    pub(super) requests_open: usize,
    pub(super) rtt: Option<Duration>,
    /// Number of agents by version.
    pub(super) agents: BTreeMap<String, usize>,
}

/// State of a cluster at the last scrape.
struct KnownCluster {
    total: Traffic,
    /// Recent traffic; a quarter of it fades on each scrape.
    weight: u64,
}

pub(super) struct BusiestClusters {
    limit: usize,
    known: HashMap<ClusterId, KnownCluster>,
    own: BTreeMap<ClusterId, ClusterRow>,
    other: ClusterRow,
    /// Number of clusters in the shared row.
    clusters_in_other: usize,
}

/// Place of the hub among those of its database. It decides which agents the rows count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HubSet {
    /// Each agent counts.
    Single,
    /// An agent counts where its first link is, so that a sum over hubs has it once.
    Several,
}

impl BusiestClusters {
    pub(super) fn new(limit: usize) -> Self {
        BusiestClusters {
            limit,
            known: HashMap::new(),
            own: BTreeMap::new(),
            other: ClusterRow::default(),
            clusters_in_other: 0,
        }
    }

    /// Number of clusters with a session that share the row of the others.
    pub(super) fn clusters_in_other(&self) -> usize {
        self.clusters_in_other
    }

    /// Rows of the busiest clusters, then that of all others.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&str, &ClusterRow)> {
        let own = self.own.iter().map(|(id, row)| (id.as_str(), row));
        own.chain([(OTHER, &self.other)])
    }

    /// Takes the activity of all clusters with a session.
    pub(super) fn update(&mut self, activities: &[(ClusterId, ClusterActivity)], hubs: HubSet) {
        let mut before = std::mem::take(&mut self.known);
        let mut deltas = Vec::with_capacity(activities.len());
        for (id, activity) in activities {
            let last = before.remove(id);
            let total = activity.traffic;
            let delta = total.since(last.as_ref().map_or(Traffic::default(), |it| it.total));
            let faded = last.map_or(0, |it| it.weight / 4 * 3);
            let weight = faded.saturating_add(weight_of(delta));
            self.known
                .insert(id.clone(), KnownCluster { total, weight });
            deltas.push(delta);
        }
        self.choose();
        let versions = most_frequent_versions(activities, hubs);
        self.other.reset_gauges();
        self.clusters_in_other = activities.len().saturating_sub(self.own.len());
        for ((id, activity), delta) in activities.iter().zip(deltas) {
            match self.own.get_mut(id) {
                Some(row) => {
                    row.reset_gauges();
                    row.add(activity, delta);
                    row.add_agents(hubs.agents(activity), &versions);
                    row.rtt = activity.rtt;
                }
                None => {
                    self.other.add(activity, delta);
                    self.other.add_agents(hubs.agents(activity), &versions);
                    self.other.rtt = self.other.rtt.max(activity.rtt);
                }
            }
        }
    }

    /// Chooses the clusters with rows of their own. One leaves only for a cluster with twice its traffic, so that two
    /// alike do not change places all the time.
    fn choose(&mut self) {
        self.own.retain(|id, _| self.known.contains_key(id));
        let weight = |id: &ClusterId| self.known.get(id).map_or(0, |it| it.weight);
        let new = self.known.keys().filter(|id| !self.own.contains_key(*id));
        let mut new: Vec<_> = new.map(|id| (Reverse(weight(id)), id.clone())).collect();
        new.sort_unstable();
        let mut quiet: Vec<_> = self.own.keys().map(|id| (weight(id), id.clone())).collect();
        quiet.sort_unstable();
        let mut quiet = quiet.into_iter();
        for (Reverse(weight), id) in new {
            if self.own.len() >= self.limit {
                match quiet.next() {
                    Some((least, leaves)) if weight / 2 > least => drop(self.own.remove(&leaves)),
                    _ => break,
                }
            }
            self.own.insert(id, ClusterRow::default());
        }
    }
}

impl HubSet {
    /// Versions of the agents that count here.
    fn agents(self, activity: &ClusterActivity) -> &[Box<str>] {
        match self {
            HubSet::Single => &activity.agents,
            HubSet::Several => &activity.first_links,
        }
    }
}

impl ClusterRow {
    fn reset_gauges(&mut self) {
        self.requests_open = 0;
        self.rtt = None;
        self.agents.clear();
    }

    fn add(&mut self, activity: &ClusterActivity, delta: Traffic) {
        self.traffic += delta;
        self.requests_open += activity.requests_open;
    }

    fn add_agents(&mut self, agents: &[Box<str>], versions: &BTreeSet<&str>) {
        for version in agents {
            let label = match versions.get(&**version) {
                Some(version) => version,
                None if is_version(version) => OTHER,
                None => UNKNOWN,
            };
            *self.agents.entry(label.to_owned()).or_default() += 1;
        }
    }
}

fn weight_of(delta: Traffic) -> u64 {
    let requests = delta.requests.saturating_mul(REQUEST_WEIGHT);
    let bytes = delta.bytes_in.saturating_add(delta.bytes_out);
    requests.saturating_add(bytes)
}

fn most_frequent_versions(
    activities: &[(ClusterId, ClusterActivity)],
    hubs: HubSet,
) -> BTreeSet<&str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let agents = activities.iter().flat_map(|(_, it)| hubs.agents(it));
    for version in agents.filter(|version| is_version(version)) {
        *counts.entry(version).or_default() += 1;
    }
    let mut versions: Vec<_> = counts.into_iter().collect();
    versions.sort_by_key(|&(_, count)| Reverse(count));
    let most = versions.into_iter().take(MAX_VERSIONS);
    most.map(|(version, _)| version).collect()
}

/// True for `1.2.3` with an optional pre-release or build.
fn is_version(text: &str) -> bool {
    let core = text.split(['-', '+']).next().unwrap_or_default();
    let mut numbers = core.split('.');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    numbers.by_ref().take(3).filter(|it| is_number(it)).count() == 3 && numbers.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity(requests: u64, version: &str) -> ClusterActivity {
        ClusterActivity {
            instances: Vec::new(),
            agents: vec![version.into()],
            first_links: Vec::new(),
            rtt: Some(Duration::from_millis(requests)),
            requests_open: 1,
            traffic: Traffic {
                requests,
                bytes_in: 10 * requests,
                bytes_out: 0,
            },
        }
    }

    fn scrape(busiest: &mut BusiestClusters, requests: &[(&str, u64)]) -> Vec<(String, u64)> {
        let of = |&(id, requests): &(&str, u64)| (id.parse().unwrap(), activity(requests, "1.0.0"));
        let activities: Vec<_> = requests.iter().map(of).collect();
        busiest.update(&activities, HubSet::Single);
        let rows = busiest.rows();
        rows.map(|(id, row)| (id.to_owned(), row.traffic.requests))
            .collect()
    }

    fn rows(rows: &[(&str, u64)]) -> Vec<(String, u64)> {
        rows.iter().map(|&(id, n)| (id.to_owned(), n)).collect()
    }

    #[test]
    fn clusters_beyond_the_limit_share_a_row_and_no_count_falls() {
        let mut busiest = BusiestClusters::new(1);
        let first = scrape(&mut busiest, &[("c-a", 100), ("c-b", 10), ("c-c", 1)]);
        assert_eq!(first, rows(&[("c-a", 100), ("other", 11)]));
        // Not twice the traffic of the other one.
        let alike = scrape(&mut busiest, &[("c-a", 100), ("c-b", 110), ("c-c", 1)]);
        assert_eq!(alike, rows(&[("c-a", 100), ("other", 111)]));
        let busier = scrape(&mut busiest, &[("c-a", 100), ("c-b", 1110), ("c-c", 2)]);
        assert_eq!(busier, rows(&[("c-b", 1000), ("other", 112)]));
        let later = scrape(&mut busiest, &[("c-a", 105), ("c-b", 1111), ("c-c", 2)]);
        assert_eq!(later, rows(&[("c-b", 1001), ("other", 117)]));
    }

    #[test]
    fn count_that_began_anew_is_added() {
        let mut busiest = BusiestClusters::new(5);
        scrape(&mut busiest, &[("c-a", 100)]);
        let again = scrape(&mut busiest, &[("c-a", 3)]);
        assert_eq!(again, rows(&[("c-a", 103), ("other", 0)]));
        let gone = scrape(&mut busiest, &[]);
        assert_eq!(gone, rows(&[("other", 0)]));
    }

    #[test]
    fn agent_with_links_to_two_hubs_counts_once_in_their_sum() {
        let agents = |first_links: Vec<Box<str>>, hubs| {
            let mut busiest = BusiestClusters::new(1);
            let activity = ClusterActivity {
                first_links,
                ..activity(1, "1.0.0")
            };
            busiest.update(&[("c-a".parse().unwrap(), activity)], hubs);
            let (_, row) = busiest.rows().next().unwrap();
            row.agents.values().sum::<usize>()
        };
        let (with_first, with_second) = (vec!["1.0.0".into()], Vec::new());
        let sum = agents(with_first, HubSet::Several) + agents(with_second, HubSet::Several);
        assert_eq!(sum, 1);
        assert_eq!(
            agents(Vec::new(), HubSet::Single),
            1,
            "only its second link is up"
        );
    }

    #[test]
    fn row_of_the_rest_has_the_longest_round_trip() {
        let mut busiest = BusiestClusters::new(0);
        scrape(&mut busiest, &[("c-a", 7), ("c-b", 3)]);
        let (id, row) = busiest.rows().next().unwrap();
        assert_eq!((id, row.requests_open), (OTHER, 2));
        assert_eq!(busiest.clusters_in_other(), 2);
        assert_eq!(row.rtt, Some(Duration::from_millis(7)));
    }

    #[test]
    fn text_of_agents_is_no_label_and_versions_are_limited() {
        let mut busiest = BusiestClusters::new(0);
        let many = (0..30).map(|n| format!("0.{}.0", n / 2 + n % 2));
        let texts = many.chain([
            "1.2".to_owned(),
            "drop-table".to_owned(),
            "1.2.3-rc.1".to_owned(),
        ]);
        let activities: Vec<_> = texts
            .enumerate()
            .map(|(n, version)| (format!("c-{n}").parse().unwrap(), activity(1, &version)))
            .collect();
        busiest.update(&activities, HubSet::Single);
        let (_, row) = busiest.rows().next().unwrap();
        assert_eq!(row.agents[UNKNOWN], 2);
        assert_eq!(row.agents.values().sum::<usize>(), 33);
        assert!(row.agents.len() <= MAX_VERSIONS + 2, "{:?}", row.agents);
        assert!(
            ["1.2.3", "1.2.3-rc.1", "10.0.0+b"]
                .into_iter()
                .all(is_version)
        );
        assert!(
            !["", "1.2", "1.2.3.4", "1..3", "v1.2.3"]
                .into_iter()
                .any(is_version)
        );
    }
}
