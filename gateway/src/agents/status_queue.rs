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
mod tests {
    use fairlead_api::resources::ClusterState;
    use time::OffsetDateTime;

    use super::*;

    fn status(state: ClusterState) -> ClusterStatus {
        ClusterStatus {
            state,
            since: OffsetDateTime::UNIX_EPOCH,
            last_error: None,
            last_seen: None,
            last_good_probe: None,
            hub: None,
        }
    }

    #[test]
    fn only_the_latest_status_of_a_cluster_is_written() {
        let queue = StatusQueue::default();
        let cluster: ClusterId = "c-a".parse().unwrap();
        queue.put(&cluster, status(ClusterState::Lost));
        queue.put(&cluster, status(ClusterState::Connected));
        let (_, taken) = queue.take().unwrap();
        assert_eq!(taken.state, ClusterState::Connected);
        assert!(queue.take().is_none());

        queue.put(&cluster, status(ClusterState::Lost));
        queue.put_back(cluster.clone(), taken);
        assert_eq!(queue.take().unwrap().1.state, ClusterState::Lost);
    }
}
