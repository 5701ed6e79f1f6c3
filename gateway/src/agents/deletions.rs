//! Ends the sessions of clusters that were deleted or moved to another tenant, at once.

use std::sync::Arc;

use fairlead_api::{
    ClusterId, Code, Failure, error_chain,
    resources::{ClusterState, ClusterStatus, LastError},
};
use tokio::sync::broadcast::{self, error::RecvError};
use tracing::{info, warn};

use crate::{agents::group::lost_status, hub::Hub, seam::DirectoryError};

/// Follows deletions until the process drains.
pub(crate) async fn end_sessions(hub: Arc<Hub>, mut deletions: broadcast::Receiver<ClusterId>) {
    loop {
        let deletion = tokio::select! {
            deletion = deletions.recv() => deletion,
            () = hub.process.draining() => return,
        };
        match deletion {
            Ok(cluster) => end(&hub, &cluster).await,
            Err(RecvError::Lagged(missed)) => {
                warn!(missed, "deletions missed, checking every session");
                check_each(&hub).await;
            }
            Err(RecvError::Closed) => {
                warn!("deletion channel closed");
                return hub.process.draining().await;
            }
        }
    }
}

async fn end(hub: &Hub, cluster: &ClusterId) {
    let stays = match hub.seam.directory.last_status(cluster).await {
        // A cluster that was created again with the id of a deleted one is `Never` too.
        Ok(Some(status)) if status.state != ClusterState::Never => Some(moved()),
        _ => None,
    };
    info!(%cluster, moved = stays.is_some(), "ending the cluster's sessions");
    hub.sessions.evict(cluster, stays);
}

fn moved() -> ClusterStatus {
    let detail = "the cluster belongs to another tenant now";
    let Failure { code, cause, .. } = Failure::because(Code::ForeignCertificate, detail);
    lost_status(LastError { code, cause })
}

async fn check_each(hub: &Hub) {
    for identity in hub.sessions.identities() {
        let cluster = &identity.cluster;
        match hub.seam.directory.admit(&identity).await {
            Ok(()) => {}
            Err(DirectoryError::ClusterDeleted | DirectoryError::ForeignCertificate(_)) => {
                end(hub, cluster).await;
            }
            Err(error @ (DirectoryError::Cloned(_) | DirectoryError::Unavailable(_))) => {
                warn!(%cluster, error = error_chain(&error), "cannot check whether the cluster was deleted");
            }
        }
    }
}
