//! Queue of statuses to write: the latest one of each cluster. A failed write goes back, unless a newer status has
//! come.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use fairlead_api::{ClusterId, resources::ClusterStatus};
use tokio::sync::Notify;

/// Holds at most one status per cluster.
#[derive(Default)]
pub(crate) struct StatusQueue {
    waiting: Mutex<HashMap<ClusterId, ClusterStatus>>,
    changed: Notify,
}

impl StatusQueue {
    fn waiting(&self) -> MutexGuard<'_, HashMap<ClusterId, ClusterStatus>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, cluster: &ClusterId, status: ClusterStatus) {
        self.waiting().insert(cluster.clone(), status);
        self.changed.notify_one();
    }

    pub(super) fn take(&self) -> Option<(ClusterId, ClusterStatus)> {
        let mut waiting = self.waiting();
        let cluster = waiting.keys().next()?.clone();
        waiting.remove_entry(&cluster)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    /// Completes when a status was put since the last call.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Puts a status back, unless a newer one has come meanwhile.
    pub(super) fn put_back(&self, cluster: ClusterId, status: ClusterStatus) {
        self.waiting().entry(cluster).or_insert(status);
    }
}

#[cfg(test)]
mod tests;
