//! A deleted cluster's session ends at once.

use std::sync::Arc;

use fairlead_api::ClusterId;
use tokio::sync::broadcast::{self, error::RecvError};
use tracing::{info, warn};

use crate::hub::Hub;

/// Until the process drains.
pub(crate) async fn end_sessions(hub: Arc<Hub>, mut deletions: broadcast::Receiver<ClusterId>) {
    loop {
        let deletion = tokio::select! {
            deletion = deletions.recv() => deletion,
            () = hub.process.draining() => return,
        };
        match deletion {
            Ok(cluster) => {
                info!(%cluster, "cluster deleted");
                hub.sessions.delete(&cluster);
            }
            Err(RecvError::Lagged(missed)) => {
                warn!(missed, "deletions missed, asking for each cluster");
                ask_for_each(&hub).await;
            }
            Err(RecvError::Closed) => {
                warn!("the directory tells of no more deletions");
                return hub.process.draining().await;
            }
        }
    }
}

async fn ask_for_each(hub: &Hub) {
    for cluster in hub.sessions.clusters() {
        match hub.seam.directory.last_status(&cluster).await {
            Ok(Some(_)) => {}
            Ok(None) => hub.sessions.delete(&cluster),
            Err(error) => warn!(%cluster, %error, "cannot tell whether the cluster was deleted"),
        }
    }
}
