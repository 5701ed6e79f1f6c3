//! Connection status of clusters, equal to the API's, including clusters without a session.

use std::collections::BTreeMap;

use fairlead_api::resources::{ClusterState, ClusterStatus};
use fairlead_store::model::Cluster;

use crate::metrics::family::{Family, number};

const STATES: [ClusterState; 4] = [
    ClusterState::Connected,
    ClusterState::ApiUnreachable,
    ClusterState::Lost,
    ClusterState::Never,
];

const CLUSTER_LABELS: [&str; 2] = ["cluster", "tenant"];

pub(super) struct StatusMetrics {
    status: Family,
    last_seen: Family,
    last_good_probe: Family,
    counts: BTreeMap<String, usize>,
}

impl StatusMetrics {
    pub(super) fn new() -> Self {
        StatusMetrics {
            status: Family::new(
                "fairlead_cluster_status",
                "Status of a cluster, as labels; always 1.",
            )
            .labelled(&["cluster", "tenant", "status"]),
            last_seen: Family::new(
                "fairlead_cluster_last_seen_timestamp_seconds",
                "When an agent of a cluster answered last, in Unix time.",
            )
            .labelled(&CLUSTER_LABELS),
            last_good_probe: Family::new(
                "fairlead_cluster_last_good_probe_timestamp_seconds",
                "When the API server of a cluster was last found ready, in Unix time.",
            )
            .labelled(&CLUSTER_LABELS),
            counts: STATES.map(|state| (state.to_string(), 0)).into(),
        }
    }

    pub(super) fn add(&mut self, cluster: &Cluster, status: &ClusterStatus) {
        let cluster_labels = [
            ("cluster", cluster.id.as_str()),
            ("tenant", cluster.tenant.as_str()),
        ];
        let state = status.state.to_string();
        let with_state = cluster_labels
            .into_iter()
            .chain([("status", state.as_str())]);
        self.status.add(with_state, 1.0);
        for (family, at) in [
            (&mut self.last_seen, status.last_seen),
            (&mut self.last_good_probe, status.last_good_probe),
        ] {
            if let Some(at) = at {
                family.add(cluster_labels, at.unix_timestamp() as f64);
            }
        }
        *self.counts.entry(state).or_default() += 1;
    }

    pub(super) fn into_families(self) -> [Family; 4] {
        let mut counts = Family::new("fairlead_clusters", "Clusters by how it stands with them.");
        for (state, count) in &self.counts {
            counts.add([("status", state.as_str())], number(*count));
        }
        [self.status, self.last_seen, self.last_good_probe, counts]
    }
}
