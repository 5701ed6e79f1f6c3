//! Links to the other hubs, and the choice of one for a request.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fairlead_api::HubUrl;
use fairlead_seam::RemoteHub;
use tokio::time::{Instant, sleep};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use super::{
    link::{HubLink, SessionLease},
    refused::RefusedHubs,
};
use crate::hub::Hub;

/// Time after the drain delay in which requests that have just arrived still find the links.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// Links to all other live hubs.
#[derive(Default)]
pub(crate) struct HubLinks {
    links: Mutex<BTreeMap<Arc<str>, Arc<HubLink>>>,
    /// Requests that use a link.
    running: TaskTracker,
}

/// A session to another hub, chosen for one request.
pub(crate) struct HubRoute {
    pub(crate) hub: Arc<RemoteHub>,
    pub(crate) session: SessionLease,
    /// Keeps the links open while this hub drains.
    pub(crate) running: TaskTrackerToken,
}

/// State of the link to a hub that has a session by the list.
pub(crate) struct LinkReport {
    pub(crate) url: HubUrl,
    /// `None`: the link is open.
    pub(crate) down: Option<(Instant, String)>,
}

impl HubLinks {
    fn links(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<HubLink>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True without another hub, or for the only hub of a store.
    pub(crate) fn is_empty(&self) -> bool {
        self.links().is_empty()
    }

    /// Brings the links in line with the list of hubs. The link to a hub that is gone is closed, with its requests.
    pub(crate) fn update(&self, hub: &Arc<Hub>, listed: Vec<RemoteHub>) {
        let mut links = self.links();
        links.retain(|_, link| listed.contains(link.hub().as_ref()));
        for remote in listed {
            let id = Arc::clone(&remote.id);
            links
                .entry(id)
                .or_insert_with(|| HubLink::open(hub, remote));
        }
    }

    /// A session to a hub that may have one of the cluster. `listed`: hubs with one by the list.
    pub(crate) fn choose(&self, listed: &[Arc<str>], refused: &RefusedHubs) -> Option<HubRoute> {
        let links = self.links();
        if links.is_empty() {
            return None;
        }
        let live: Vec<Arc<str>> = links.keys().cloned().collect();
        let mut candidates = refused.candidates(listed, &live, Instant::now());
        candidates.find_map(|id| {
            let link = links.get(id)?;
            Some(HubRoute {
                hub: Arc::clone(link.hub()),
                session: link.session()?,
                running: self.running.token(),
            })
        })
    }

    /// One session to each of the other live hubs; `None` for a hub without a link.
    pub(super) fn all(&self) -> Vec<(HubUrl, Option<SessionLease>)> {
        let links = self.links();
        let links = links.values();
        links
            .map(|link| (link.hub().url.clone(), link.session()))
            .collect()
    }

    /// A session to this hub.
    pub(super) fn session_to(&self, id: &str) -> Option<SessionLease> {
        self.links().get(id)?.session()
    }

    /// State of the link to this hub; `None` for a hub that is not live.
    pub(crate) fn report(&self, id: &str) -> Option<LinkReport> {
        let link = Arc::clone(self.links().get(id)?);
        Some(LinkReport {
            url: link.hub().url.clone(),
            down: link.down(),
        })
    }

    /// Completes when new requests are refused and no running one needs a link.
    pub(crate) async fn unused(&self, hub: &Hub) {
        hub.closing.cancelled().await;
        sleep(DRAIN_GRACE).await;
        self.running.close();
        self.running.wait().await;
    }
}
