//! Resets of stalled answers while the hub needs their memory.

use std::{sync::Arc, time::Duration};

use tokio::time::interval;
use tracing::warn;

use crate::hub::Hub;

/// Interval of the check of the memory budget.
const EVICT_INTERVAL: Duration = Duration::from_millis(250);

/// Resets stalled answers while the sessions' memory budget is nearly used up, those of the group with the most first.
pub(crate) async fn evict_under_pressure(hub: Arc<Hub>) {
    let mut ticks = interval(EVICT_INTERVAL);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = hub.process.draining() => return,
        }
        let memory = &hub.reserve;
        if memory.unread() < memory.limit() - memory.limit() / 8 {
            continue;
        }
        if let Some((group, count)) = hub.stalls.evict_from_largest() {
            let group = group.as_deref().unwrap_or("strangers");
            warn!(group, count, "memory budget used up, stalled answers reset");
        }
    }
}
