//! Writes the status of clusters to the directory, one at a time, so that an older one never overtakes a newer one.

use std::{sync::Arc, time::Duration};

use fairlead_api::{ClusterId, Code, resources::ClusterStatus};
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::hub::Hub;

const STORE_TIME: Duration = Duration::from_secs(10);
const REST: Duration = Duration::from_secs(1);

/// Writes until the process drains and the last session has ended.
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
            () = reports.changed() => {}
            // The status of the last session is queued by then.
            () = hub.over.cancelled() => if reports.is_empty() {
                return;
            },
        }
    }
}

/// True if the status is settled: written, or about a cluster that is gone.
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
