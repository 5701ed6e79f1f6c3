//! Ends the sessions of revoked identities, at once: their cluster was deleted, moved or enrolled again, or a person
//! revoked the identity.

use std::sync::Arc;

use fairlead_api::{ClusterId, Code, Failure, error_chain, resources::ClusterState};
use fairlead_dialer::CloseReason;
use fairlead_seam::DirectoryError;
use tokio::sync::broadcast::{self, error::RecvError};
use tracing::{info, warn};

use crate::{agents::entry::SessionEntry, hub::Hub};

/// Follows revocations until the process drains.
pub(crate) async fn end_sessions(hub: Arc<Hub>, mut revocations: broadcast::Receiver<ClusterId>) {
    loop {
        let revocation = tokio::select! {
            revocation = revocations.recv() => revocation,
            () = hub.process.draining() => return,
        };
        match revocation {
            Ok(cluster) => check(&hub, Some(&cluster)).await,
            Err(RecvError::Lagged(missed)) => {
                warn!(missed, "revocations missed, checking every session");
                check(&hub, None).await;
            }
            Err(RecvError::Closed) => {
                warn!("revocation channel closed");
                return hub.process.draining().await;
            }
        }
    }
}

/// Admits the open sessions of a cluster again, or those of all clusters, and evicts the rejected ones.
async fn check(hub: &Hub, cluster: Option<&ClusterId>) {
    for entry in hub.sessions.open_sessions(cluster) {
        match hub.seam.directory.admit(entry.identity()).await {
            Ok(()) => {}
            Err(error @ (DirectoryError::ClusterDeleted | DirectoryError::Revoked(_))) => {
                evict(hub, &entry, error).await;
            }
            Err(error @ (DirectoryError::Cloned(_) | DirectoryError::Unavailable(_))) => {
                warn!(cluster = %entry.cluster(), error = error_chain(&error), "cannot check whether the identity was revoked");
            }
        }
    }
}

async fn evict(hub: &Hub, entry: &Arc<SessionEntry>, error: DirectoryError) {
    let reason = match error {
        DirectoryError::ClusterDeleted => CloseReason::Deleted,
        _ => CloseReason::Revoked,
    };
    let failure = Failure::from(error);
    let cluster = entry.cluster();
    info!(%cluster, serial = entry.identity().serial, cause = failure.cause, "session of a revoked identity evicted");
    // Before their streams are reset, so that they can end with the reason.
    let lost = Failure::because(Code::AccessEnded, &failure.cause);
    hub.requests
        .end_on_session(Arc::as_ptr(entry).addr(), &lost);
    let entry_address = Arc::as_ptr(entry).addr();
    let notified = hub
        .relayed
        .end_on_session(&hub.links, entry_address, &failure.cause);
    notified.await;
    let why = match hub.seam.directory.last_status(cluster).await {
        // A cluster that was created again with the id of a deleted one has never connected.
        Ok(Some(status)) if status.state != ClusterState::Never => Some(&failure),
        _ => None,
    };
    hub.sessions.evict(entry, reason, why);
}
