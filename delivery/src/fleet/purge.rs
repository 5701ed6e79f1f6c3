//! Purge of a cluster: tombstones for all its deployments, also for those whose bundles were deleted.
//!
//! No bundle is removed while a deployment that depends on it is there. An adopted GitOps tool is left out: it belongs to
//! others, and its objects return with the agent's uninstall.

use fairlead_api::{
    BundleId, ClusterId,
    delivery::{Deployment, DesiredBundle},
};
use fairlead_store::model::Cluster;

use super::{Fleet, bundle_state::BundleState};

/// True if the cluster is being purged of the bundle.
pub(crate) fn is_purged(bundle: &BundleState, cluster: &Cluster) -> bool {
    cluster.purge.is_some() && !is_adoption(bundle)
}

fn is_adoption(bundle: &BundleState) -> bool {
    let origin = bundle.document().and_then(|it| it.tool.as_ref());
    origin.is_some_and(|it| !it.with_controllers)
}

impl Fleet {
    /// Deployments with objects in the cluster that a purge removes, ordered by bundle.
    pub(crate) fn purgeable(&self, cluster: &ClusterId) -> Vec<Deployment> {
        let left: Vec<&BundleId> = self.left(cluster).map(|it| &it.id).collect();
        let listed = self.of_cluster(cluster, &[]).into_iter();
        let listed = listed.filter(|it| left.contains(&it.bundle()));
        listed.map(|it| self.deployment(&it)).collect()
    }

    /// True if an agent of the cluster is connected.
    pub(crate) fn is_connected(&self, cluster: &ClusterId) -> bool {
        self.clusters.get(cluster).is_some_and(|it| it.connected)
    }

    /// Tombstones of a cluster that is being purged.
    pub(super) fn purged(&self, cluster: &ClusterId) -> Vec<DesiredBundle> {
        let left: Vec<&BundleState> = self.left(cluster).collect();
        let is_needed = |bundle: &BundleState| {
            left.iter().any(|other| {
                let needs = other.document().map(|it| &it.fields.depends_on);
                other.id != bundle.id && needs.is_some_and(|it| it.contains(&bundle.id))
            })
        };
        let free: Vec<_> = left.iter().filter(|it| !is_needed(it)).collect();
        // A circle is broken everywhere at once.
        let due = match free.is_empty() {
            true => left.iter().collect(),
            false => free,
        };
        let tombstone = |bundle: &&&BundleState| DesiredBundle {
            bundle: bundle.id.clone(),
            generation: self
                .highest_generation(cluster, &bundle.id)
                .max(bundle.newest()),
            spec: None,
            remove: true,
            suspended: false,
        };
        due.iter().map(tombstone).collect()
    }

    fn left<'a>(&'a self, cluster: &'a ClusterId) -> impl Iterator<Item = &'a BundleState> {
        self.bundles.values().filter(move |it| {
            let cell = it.cells.get(cluster);
            cell.is_some_and(|it| it.report.is_some()) && !is_adoption(it)
        })
    }
}
