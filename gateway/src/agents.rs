//! Sessions of agents: their life, the table of them, cluster status, and the requests that agents send over them.

mod arrivals;
mod choice;
mod deleted;
pub(crate) mod entry;
mod group;
mod health;
mod hello;
pub(crate) mod lifetime;
mod news;
pub(crate) mod patience;
mod probe;
mod report;
pub(crate) mod reports;
pub(crate) mod routes;
pub(crate) mod scrape;
pub(crate) mod silence;
pub(crate) mod table;

use std::sync::Arc;

use crate::hub::Hub;

/// Starts the tasks that run for the whole gateway, not for one session.
pub(crate) fn start(hub: &Arc<Hub>) {
    // Subscribed before the first session can begin, so that no deletion is missed.
    let deletions = hub.seam.directory.deleted();
    hub.process
        .spawn(deleted::end_sessions(Arc::clone(hub), deletions));
    if let Some(wanting) = hub.seam.directory.wanting() {
        hub.process.spawn(news::tell(Arc::clone(hub), wanting));
    }
    hub.process.spawn(report::run(Arc::clone(hub)));
    hub.process.spawn(end(Arc::clone(hub)));
}

/// Ends the draining once no session is left.
///
/// Until then the listeners stay open: an agent with a broken link has to come back for the requests that still run.
async fn end(hub: Arc<Hub>) {
    hub.process.draining().await;
    hub.sessions.none().await;
    hub.over.cancel();
}
