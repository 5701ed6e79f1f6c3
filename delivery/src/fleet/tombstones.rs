//! Tombstones that have served: their objects are gone, or their cluster is targeted again or deleted.

use std::collections::{BTreeMap, BTreeSet};

use fairlead_api::{BundleId, ClusterId};
use fairlead_store::{Draft, StoreError};

use super::Fleet;

/// Tombstones to be deleted, by bundle. An empty set deletes a bundle that waits for nothing any more.
pub(crate) type ServedTombstones = BTreeMap<BundleId, BTreeSet<ClusterId>>;

impl Fleet {
    /// Tombstones that have served.
    pub(crate) fn served_tombstones(&mut self) -> ServedTombstones {
        let mut served = ServedTombstones::new();
        for (bundle, cluster) in std::mem::take(&mut self.removed) {
            served.entry(bundle).or_default().insert(cluster);
        }
        for bundle in self.bundles.values() {
            let Some(document) = bundle.document() else {
                continue;
            };
            let is_decided = bundle.is_loaded(bundle.newest());
            let is_served = |cluster: &&ClusterId| {
                let cell = bundle.cells.get(cluster);
                // Without its generation the decision about the cluster may be of an older one.
                let is_targeted = is_decided && cell.is_some_and(|it| it.targeting().is_targeted());
                is_targeted || !self.clusters.contains_key(*cluster)
            };
            let clusters: BTreeSet<_> = document
                .removals
                .keys()
                .filter(is_served)
                .cloned()
                .collect();
            let waits_for_nothing = document.deleting && document.removals.is_empty();
            if !clusters.is_empty() || waits_for_nothing {
                served
                    .entry(bundle.id.clone())
                    .or_default()
                    .extend(clusters);
            }
        }
        served.retain(|id, _| self.bundles.get(id).is_some_and(|it| it.record.is_some()));
        served
    }

    /// Returns tombstones that were not deleted.
    pub(crate) fn return_tombstones(&mut self, served: ServedTombstones) {
        for (bundle, clusters) in served {
            let clusters = clusters.into_iter().map(|it| (bundle.clone(), it));
            self.removed.extend(clusters);
        }
    }
}

/// Deletes served tombstones, and bundles to be deleted without a further one.
///
/// # Errors
/// [`StoreError`]
pub(crate) fn forget(draft: &mut Draft, served: &ServedTombstones) -> Result<(), StoreError> {
    for (id, clusters) in served {
        let Some(record) = draft.bundle(id) else {
            continue;
        };
        let mut bundle = record.value.clone();
        bundle
            .removals
            .retain(|cluster, _| !clusters.contains(cluster));
        if bundle.deleting && bundle.removals.is_empty() {
            draft.delete_bundle(id)?;
        } else if bundle != record.value {
            draft.put_bundle(bundle)?;
        }
    }
    Ok(())
}
