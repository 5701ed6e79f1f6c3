//! Writes the status of clusters to the directory, one at a time, so that an older one never overtakes a newer one.

use std::{sync::Arc, time::Duration};

use fairlead_api::{ClusterId, error_chain, resources::ClusterStatus};
use fairlead_seam::DirectoryError;
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::hub::Hub;

const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Writes until the process drains and the last session has ended.
pub(crate) async fn run(hub: Arc<Hub>) {
    let queue = hub.sessions.status_queue();
    loop {
        while let Some((cluster, status)) = queue.take() {
            if !is_settled(&hub, &cluster, &status).await {
                queue.put_back(cluster, status);
                if hub.process.is_draining() {
                    return;
                }
                sleep(RETRY_DELAY).await;
            }
        }
        tokio::select! {
            () = queue.changed() => {}
            // The status of the last session is queued by then.
            () = hub.sessions_ended.cancelled() => if queue.is_empty() {
                return;
            },
        }
    }
}

/// True if the status is settled: written, or about a cluster that is gone.
async fn is_settled(hub: &Hub, cluster: &ClusterId, status: &ClusterStatus) -> bool {
    let report = hub.seam.directory.report(cluster, status.clone());
    match timeout(WRITE_TIMEOUT, report).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            warn!(%cluster, state = %status.state, error = error_chain(&error), "status not stored");
            !matches!(error, DirectoryError::Unavailable(_))
        }
        Err(_) => {
            warn!(%cluster, state = %status.state, "status not stored in time");
            false
        }
    }
}
