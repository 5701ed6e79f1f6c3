//! Sessions of agents: their life, the table of them, cluster status, and the requests that agents send over them.

mod audit;
mod choice;
mod connection_burst;
mod desired_changes;
pub(crate) mod entry;
mod group;
pub(crate) mod head_deadlines;
mod health;
mod hello;
pub(crate) mod lifetime;
mod outbound;
mod probe;
mod revocations;
pub(crate) mod routes;
pub(crate) mod scrape;
pub(crate) mod silence;
pub(crate) mod status_queue;
mod status_writer;
pub(crate) mod stream_peer;
pub(crate) mod table;
pub(crate) mod wait_budget;

use std::sync::Arc;

use crate::hub::Hub;

/// Starts the tasks that run for the whole gateway, not for one session.
pub(crate) fn start(hub: &Arc<Hub>) {
    // Subscribed before the first session can begin, so that no revocation is missed.
    let revocations = hub.seam.directory.revocations();
    hub.process
        .spawn(revocations::end_sessions(Arc::clone(hub), revocations));
    let directory = &hub.seam.directory;
    let changes = [directory.config_changes(), directory.delivery_changes()];
    for changes in changes.into_iter().flatten() {
        hub.process
            .spawn(desired_changes::notify_agents(Arc::clone(hub), changes));
    }
    hub.process.spawn(status_writer::run(Arc::clone(hub)));
    hub.process.spawn(end(Arc::clone(hub)));
    hub.process.spawn(head_deadlines::sweep(Arc::clone(hub)));
    hub.process
        .spawn(desired_changes::follow_hub_list(Arc::clone(hub)));
}

/// Ends the draining once no session is left.
///
/// Until then the listeners stay open: an agent with a broken link has to come back for the requests that still run.
async fn end(hub: Arc<Hub>) {
    hub.closing.cancelled().await;
    hub.sessions.all_ended().await;
    hub.sessions_ended.cancel();
}
