//! Resets of stalled answers while the hub needs their memory.

use std::{sync::Arc, time::Duration};

use tokio::time::interval;
use tracing::warn;

use crate::hub::Hub;

/// Interval of the check of the memory budget.
const EVICT_INTERVAL: Duration = Duration::from_millis(250);

/// Resets stalled answers while the sessions' memory budget is nearly used up, those of the token with the most first, in the
/// tenant with the most.
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
        if let Some((owner, count)) = hub.stalls.evict_from_largest() {
            let group = owner.as_ref().map_or("strangers", |owner| &owner.group);
            let token = owner.as_ref().map(|owner| owner.token.as_str());
            warn!(
                group,
                token, count, "memory budget used up, stalled answers reset"
            );
        }
    }
}
