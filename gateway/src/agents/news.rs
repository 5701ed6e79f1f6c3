//! That there is another configuration for an agent, it learns on a probe which comes at once.

use std::sync::Arc;

use fairlead_api::ClusterId;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::hub::Hub;

/// Until the process drains.
pub(crate) async fn tell(hub: Arc<Hub>, mut wanting: broadcast::Receiver<ClusterId>) {
    loop {
        let cluster = tokio::select! {
            cluster = wanting.recv() => cluster,
            () = hub.process.draining() => return,
        };
        match cluster {
            Ok(cluster) => hub.sessions.has_news(&cluster),
            // Those that were missed learn of it on their next probe, some seconds later.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}
