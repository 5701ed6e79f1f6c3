//! Notifies agents of a changed configuration or of changed deliveries by an immediate probe.

use std::sync::Arc;

use fairlead_api::ClusterId;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::hub::Hub;

/// Follows changes until the process drains.
pub(crate) async fn notify_agents(hub: Arc<Hub>, mut wanting: broadcast::Receiver<ClusterId>) {
    loop {
        let cluster = tokio::select! {
            cluster = wanting.recv() => cluster,
            () = hub.process.draining() => return,
        };
        match cluster {
            Ok(cluster) => hub.sessions.trigger_probe(&cluster),
            // Agents of missed changes see them on their next regular probe.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}
