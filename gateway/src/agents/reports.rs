//! Tells the directory how it stands with clusters: the latest status of each, one at a time, so that an older one never
//! comes after a newer one. What the directory does not take now is told again.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fairlead_api::{ClusterId, Code, resources::ClusterStatus};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tracing::warn;

use crate::hub::Hub;

const STORE_TIME: Duration = Duration::from_secs(10);
const REST: Duration = Duration::from_secs(1);

/// At most one status for each cluster is waiting.
#[derive(Default)]
pub(crate) struct Reports {
    waiting: Mutex<HashMap<ClusterId, ClusterStatus>>,
    news: Notify,
}

impl Reports {
    fn waiting(&self) -> MutexGuard<'_, HashMap<ClusterId, ClusterStatus>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, cluster: &ClusterId, status: ClusterStatus) {
        self.waiting().insert(cluster.clone(), status);
        self.news.notify_one();
    }

    fn take(&self) -> Option<(ClusterId, ClusterStatus)> {
        let mut waiting = self.waiting();
        let cluster = waiting.keys().next()?.clone();
        waiting.remove_entry(&cluster)
    }

    /// Unless something newer has come meanwhile.
    fn put_back(&self, cluster: ClusterId, status: ClusterStatus) {
        self.waiting().entry(cluster).or_insert(status);
    }
}

/// Until the process drains and the last session has ended.
pub(crate) async fn run(hub: Arc<Hub>) {
    let reports = hub.sessions.reports();
    loop {
        while let Some((cluster, status)) = reports.take() {
            if !told(&hub, &cluster, &status).await {
                reports.put_back(cluster, status);
                if hub.process.is_draining() {
                    return;
                }
                sleep(REST).await;
            }
        }
        tokio::select! {
            () = reports.news.notified() => {}
            // What the last one had to say is waiting by then.
            () = hub.over.cancelled() => if reports.waiting().is_empty() {
                return;
            },
        }
    }
}

/// Whether that is settled: taken, or about a cluster that is gone.
async fn told(hub: &Hub, cluster: &ClusterId, status: &ClusterStatus) -> bool {
    let report = hub.seam.directory.report(cluster, status.clone());
    match timeout(STORE_TIME, report).await {
        Ok(Ok(())) => true,
        Ok(Err(failure)) => {
            warn!(%cluster, state = %status.state, error = %failure, "status not stored");
            failure.code != Code::Store
        }
        Err(_) => {
            warn!(%cluster, state = %status.state, "status not stored in time");
            false
        }
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
    fn only_the_latest_status_of_a_cluster_is_told() {
        let reports = Reports::default();
        let cluster: ClusterId = "c-a".parse().unwrap();
        reports.put(&cluster, status(ClusterState::Lost));
        reports.put(&cluster, status(ClusterState::Connected));
        let (_, told) = reports.take().unwrap();
        assert_eq!(told.state, ClusterState::Connected);
        assert!(reports.take().is_none());

        reports.put(&cluster, status(ClusterState::Lost));
        reports.put_back(cluster.clone(), told);
        assert_eq!(reports.take().unwrap().1.state, ClusterState::Lost);
    }
}
