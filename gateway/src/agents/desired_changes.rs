//! Notifies agents by an immediate probe: of a changed configuration, of changed deliveries, and of another list of hubs.

use std::sync::Arc;

use fairlead_api::{ClusterId, headers::CHECK_INTERVAL};
use tokio::{
    sync::broadcast::{self, error::RecvError},
    time::sleep,
};

use crate::hub::Hub;

/// Steps in which all agents are notified.
const NOTIFY_STEPS: u32 = 50;

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

/// Follows the list of hubs until the last session has ended. All agents are notified of another list, within [`CHECK_INTERVAL`].
pub(crate) async fn follow_hub_list(hub: Arc<Hub>) {
    let list = || hub.seam.directory.agent_hubs().list;
    let following = async {
        let mut known = list();
        loop {
            sleep(CHECK_INTERVAL).await;
            let now = list();
            if now == known {
                continue;
            }
            known = now;
            let sessions = hub.sessions.open_sessions(None);
            let step = sessions.len().div_ceil(NOTIFY_STEPS as usize).max(1);
            for some in sessions.chunks(step) {
                some.iter().for_each(|session| session.trigger_probe());
                sleep(CHECK_INTERVAL / NOTIFY_STEPS).await;
            }
        }
    };
    hub.sessions_ended.run_until_cancelled(following).await;
}
