//! Watched clusters. Status updates are applied to the known list; the whole list is read again only after other changes.

use std::collections::BTreeMap;

use fairlead_api::{
    ClusterId, Failure,
    resources::{Cluster, ClusterStatusEntry, ClusterStatusUpdate},
};
use fairlead_client::{HubClient, HubError};

use super::{
    agent_columns::AgentColumns,
    table::{columns, row},
};
use crate::{
    output::OutputFormat,
    watch::{self, Wakes, WatchScope},
};

/// Selection of a watch.
pub(super) struct Watched {
    pub(super) scope: WatchScope,
    /// True if the selection depends on the status.
    pub(super) by_status: bool,
}

#[derive(Default)]
struct Known {
    clusters: Vec<Cluster>,
    agents: AgentColumns,
}

impl Known {
    /// Applies a status update; false if the list has to be read again.
    fn take_in(&mut self, told: ClusterStatusUpdate) -> bool {
        if told.snapshot || told.changed {
            return false;
        }
        let items = told.items.into_iter();
        let mut items: BTreeMap<ClusterId, ClusterStatusEntry> =
            items.map(|it| (it.id.clone(), it)).collect();
        self.clusters.retain(|it| !told.removed.contains(&it.id));
        for cluster in &mut self.clusters {
            let Some(item) = items.remove(&cluster.id) else {
                continue;
            };
            cluster.status = item.status;
            if item.outdated {
                self.agents.outdated.insert(item.id);
            } else {
                self.agents.outdated.remove(&item.id);
            }
        }
        true
    }
}

pub(super) async fn watch(
    hub: &HubClient,
    format: &OutputFormat,
    watched: Watched,
    fetch: impl AsyncFn() -> Result<Vec<Cluster>, HubError>,
) -> Result<(), Failure> {
    let Watched { scope, by_status } = watched;
    let mut known = Known::default();
    let rows = async |told: Option<ClusterStatusUpdate>| {
        let up_to_date = told.is_some_and(|told| !by_status && known.take_in(told));
        if !up_to_date {
            known.clusters = fetch().await?;
            known.agents = AgentColumns::of(hub, format).await?;
        }
        let rows = known.clusters.iter().map(|it| row(it, &known.agents));
        Ok::<Vec<_>, HubError>(rows.collect())
    };
    let watch = watch::watch(hub, format, columns(), scope, Wakes::Status, rows);
    Box::pin(watch).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(id: &str, state: &str) -> Cluster {
        let cluster = json!({
            "id": id, "tenant": "t-a", "displayName": id, "created": "2026-11-21T12:00:00Z", "version": 1,
            "status": status(state),
        });
        serde_json::from_value(cluster).unwrap()
    }

    fn status(state: &str) -> serde_json::Value {
        json!({ "state": state, "since": "2026-11-21T12:00:00Z", "lastError": null })
    }

    fn told(snapshot: bool, changed: bool) -> ClusterStatusUpdate {
        let told = json!({
            "cursor": "", "snapshot": snapshot, "changed": changed, "removed": ["c-removed"],
            "items": [
                { "id": "c-a", "status": status("Lost"), "outdated": true },
                { "id": "c-of-others", "status": status("Lost"), "outdated": false },
            ],
        });
        serde_json::from_value(told).unwrap()
    }

    #[test]
    fn status_update_suffices_unless_other_fields_have_changed() {
        let ids = ["c-a", "c-b", "c-removed"];
        let clusters = ids.map(|id| cluster(id, "Connected"));
        let mut known = Known {
            clusters: clusters.to_vec(),
            ..Known::default()
        };
        for (snapshot, changed) in [(true, false), (false, true)] {
            assert!(!known.take_in(told(snapshot, changed)));
        }
        assert_eq!(known.clusters, clusters);
        assert!(known.take_in(told(false, false)));
        assert_eq!(
            known.clusters,
            [cluster("c-a", "Lost"), cluster("c-b", "Connected")]
        );
        assert_eq!(known.agents.outdated.len(), 1);
    }
}
