//! Everything about agents' sessions: how they begin and end, who has one, how it stands with their clusters, and what
//! agents may ask of modules over them.

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

/// Starts what runs beside the sessions.
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

/// What still runs on a session of a hub that drains may have to go on over another link, so the door is open until then.
async fn end(hub: Arc<Hub>) {
    hub.process.draining().await;
    hub.sessions.none().await;
    hub.over.cancel();
}
