//! Links of the agent: as many as desired. Their number follows the list of hubs, so links start while the agent runs. A
//! link ends by itself once there are more than desired and it has no session.

use std::{sync::Arc, time::Duration};

use fairlead_api::hub_list::HubList;
use tracing::info;

use super::{dial::HubDialer, identity_manager::IdentityManager, supervisor::LinkSupervisor};
use crate::{backoff::chance, context::AgentContext};

/// Runs until the process drains.
pub(crate) async fn run(
    context: Arc<AgentContext>,
    identities: Arc<IdentityManager>,
    dialer: HubDialer,
) {
    let mut learned = context.hubs.learned_changes();
    // A stored list may have more links than a first one.
    let mut delay = Duration::ZERO;
    loop {
        learned.mark_unchanged();
        for link in context.hubs.start_missing() {
            let (context, identities) = (Arc::clone(&context), Arc::clone(&identities));
            let process = context.process.clone();
            let supervisor = LinkSupervisor::new(context, identities, dialer.for_link(link), link);
            process.spawn(supervisor.run(delay));
        }
        tokio::select! {
            changed = learned.changed() => {
                if changed.is_err() {
                    return;
                }
                let hubs: HubList = learned.borrow().iter().cloned().collect();
                info!(%hubs, links = context.hubs.desired_links(), "list of hubs changed");
            }
            () = context.process.draining() => return,
        }
        // All agents of a hub learn of another hub at the same time.
        delay = context.reconnect_spread.get().mul_f64(chance());
    }
}
