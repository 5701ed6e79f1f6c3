//! All deployments of the hub in memory: which cluster gets which generation of which bundle.
//!
//! Nothing here does I/O: the supervisor passes documents, status, reports and the time in, and carries the results out.
//! Nothing is removed because something is absent: a tombstone is a document.

mod bundle_rollout;
mod bundle_state;
mod cells;
mod change_log;
mod cluster_entry;
mod desired;
mod follow;
mod purge;
mod report;
mod reports;
mod rollout_row;
mod rollouts;
mod shared;
mod shown;
mod stored_rows;
mod supervisor;
mod tombstones;
mod ulid;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use fairlead_api::{BundleId, ClusterId};
use fairlead_delivery_store::DeploymentRow;
use fairlead_rollout::UnixMillis;
use fairlead_store::View;

use self::{
    bundle_state::{BundleState, Surroundings},
    change_log::ChangeLog,
    cluster_entry::ClusterEntry,
};

pub use self::shared::FleetHandle;
pub(crate) use self::{
    desired::etag_of,
    reports::TakenReports,
    rollout_row::shown as shown_row,
    shared::WeakFleet,
    shown::{ChangedDeployments, ListedDeployment},
    supervisor::SupervisorParts,
};

/// Deployments of all bundles in all clusters.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    /// Documents that the state was computed from.
    view: Arc<View>,
    clusters: HashMap<ClusterId, ClusterEntry>,
    bundles: BTreeMap<BundleId, BundleState>,
    /// Numbers of commands that wait to be claimed; clusters without one are absent.
    commands: BTreeMap<ClusterId, u32>,
    /// Clusters whose desired state must be announced again.
    dirty: BTreeSet<ClusterId>,
    /// Reports that rollouts have not taken.
    reported: Vec<(BundleId, ClusterId)>,
    /// Rows to be written: the last report, empty once nothing is left.
    rows: HashMap<(ClusterId, BundleId), String>,
    /// Tombstones whose objects are gone.
    removed: BTreeSet<(BundleId, ClusterId)>,
    changes: ChangeLog,
    /// Deployments that must try again by the order of a person.
    retries: Vec<(ClusterId, BundleId)>,
    /// True after the deletion of a bundle: its rollouts must be deleted.
    has_deleted_bundles: bool,
    /// True once the state was computed for the first time.
    ready: bool,
}

impl Fleet {
    /// True once the state was computed for the first time.
    pub(crate) const fn is_ready(&self) -> bool {
        self.ready
    }

    /// Number of the last change of a deployment.
    pub(crate) const fn last_change(&self) -> u64 {
        self.changes.last()
    }

    /// True if a restored hub waits for its confirmation. It releases nothing, and desires nothing of any cluster.
    pub(crate) fn awaits_confirmation(&self) -> bool {
        let authorities = self.view.authorities();
        authorities.is_some_and(|it| it.value.epoch != it.value.confirmed_epoch)
    }

    fn parts(
        &mut self,
        now: UnixMillis,
    ) -> (Surroundings<'_>, &mut BTreeMap<BundleId, BundleState>) {
        let around = Surroundings {
            view: &self.view,
            clusters: &self.clusters,
            now,
        };
        (around, &mut self.bundles)
    }

    /// Sets the numbers of commands that wait to be claimed; returns clusters with another number than before.
    pub(crate) fn set_commands(&mut self, commands: &BTreeMap<ClusterId, u32>) -> Vec<ClusterId> {
        let before = std::mem::replace(&mut self.commands, commands.clone());
        let all = before.keys().chain(commands.keys());
        let changed = all.filter(|it| before.get(*it) != commands.get(*it));
        let changed: BTreeSet<ClusterId> = changed.cloned().collect();
        self.dirty.extend(changed.iter().cloned());
        changed.into_iter().collect()
    }

    /// True if the state was computed from exactly these documents.
    pub(crate) fn has_followed(&self, view: &Arc<View>) -> bool {
        self.ready && Arc::ptr_eq(&self.view, view)
    }

    /// Takes the rows to be written.
    pub(crate) fn take_rows(&mut self) -> Vec<DeploymentRow> {
        let rows = std::mem::take(&mut self.rows).into_iter();
        rows.map(|((cluster, bundle), body)| DeploymentRow {
            cluster,
            bundle,
            body,
        })
        .collect()
    }

    /// Returns rows that were not written. Newer ones stay.
    pub(crate) fn return_rows(&mut self, rows: Vec<DeploymentRow>) {
        for row in rows {
            self.rows
                .entry((row.cluster, row.bundle))
                .or_insert(row.body);
        }
    }

    /// Notes deployments that must try again.
    pub(crate) fn note_retries(&mut self, retried: Vec<(ClusterId, BundleId)>) {
        self.retries.extend(retried);
    }

    /// Takes deployments that must try again.
    pub(crate) fn take_retries(&mut self) -> Vec<(ClusterId, BundleId)> {
        std::mem::take(&mut self.retries)
    }

    /// True after the deletion of a bundle since the last call.
    pub(crate) fn take_deleted_bundles(&mut self) -> bool {
        std::mem::take(&mut self.has_deleted_bundles)
    }

    /// Notes a change of what people see of a deployment.
    fn note_change(&mut self, cluster: &ClusterId, bundle: &BundleId) {
        self.changes.push(cluster.clone(), bundle.clone());
    }
}

#[cfg(test)]
mod tests;
