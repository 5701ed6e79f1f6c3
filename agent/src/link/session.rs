//! Sessions of a link: a new one before its hello, and a serving one with its tasks and guards.

use std::{sync::Arc, time::Duration};

use fairlead_api::{HubUrl, hello::LinkIndex};
use fairlead_dialer::{CloseReason, Dialed, Session};
use fairlead_exchange::Exchanges;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::info;

use crate::{
    context::{
        AgentContext, LinkGuard,
        hubs::{KnownHubs, SessionHub},
        sessions::SessionRegistration,
    },
    identity::Identity,
};

/// Time for the hub to acknowledge the end of a session.
const CLOSE_DEADLINE: Duration = Duration::from_secs(5);
/// Interval between two checks for running requests of a parked session.
const UNUSED_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Session before its hello, with the identity that it proved.
pub(crate) struct NewSession {
    pub(crate) dialed: Dialed,
    /// Dialled address.
    pub(crate) hub: HubUrl,
    pub(crate) identity: Arc<Identity>,
}

impl NewSession {
    pub(crate) fn new(dialed: Dialed, hub: HubUrl, identity: &Arc<Identity>) -> Box<Self> {
        Box::new(NewSession {
            dialed,
            hub,
            identity: identity.clone(),
        })
    }
}

/// Session that serves requests of the hub.
pub(crate) struct ServingSession {
    pub(crate) session: Session,
    pub(crate) exchanges: Exchanges,
    /// Task that accepts streams. Ends with the session.
    pub(crate) _serving: AbortOnDropHandle<()>,
    /// Task that watches the API server.
    pub(crate) _watching: AbortOnDropHandle<()>,
    /// Running requests.
    pub(crate) requests: TaskTracker,
    /// Present while the agent's own requests may use the session.
    pub(crate) registration: Option<SessionRegistration>,
    /// Certificate in use; each session renews its own.
    pub(crate) identity: Arc<Identity>,
    /// Last renewal of that certificate over this session.
    pub(crate) renewed: Option<Instant>,
    /// Present while the session has a link.
    pub(crate) link: Option<LinkGuard>,
    /// Dialled address of the session's hub.
    pub(crate) home: HubUrl,
    /// Link that uses the hub; `None` for a parked session.
    pub(crate) hub: Option<HubUse>,
    /// Begin of the session.
    pub(crate) since: Instant,
    /// Begin of its last link.
    pub(crate) up_since: Instant,
    /// Whether the hello with the cluster's UID has been sent.
    pub(crate) uid_sent: bool,
    /// Announcement of the hub that it drains.
    pub(crate) hub_draining: watch::Receiver<bool>,
    /// Whether that announcement has been noted.
    pub(crate) is_hub_draining: bool,
}

/// Guard of a session's hub in the list of used ones.
pub(crate) struct HubUse {
    hubs: Arc<KnownHubs>,
    link: LinkIndex,
    hub: SessionHub,
}

impl HubUse {
    pub(crate) fn new(hubs: &Arc<KnownHubs>, link: LinkIndex, hub: SessionHub) -> Self {
        hubs.set_session(link, Some(hub.clone()));
        HubUse {
            hubs: Arc::clone(hubs),
            link,
            hub,
        }
    }

    /// Another address of the same hub has taken over the session.
    pub(crate) fn set_dialed(&mut self, dialed: HubUrl) {
        self.hub.dialed = dialed;
        self.hubs.set_session(self.link, Some(self.hub.clone()));
    }
}

impl Drop for HubUse {
    fn drop(&mut self) {
        self.hubs.end_session(self.link, &self.hub);
    }
}

impl ServingSession {
    /// Completes when the hub has announced that it drains.
    pub(crate) async fn wait_for_hub_draining(&self) {
        let mut announced = self.hub_draining.clone();
        if announced.wait_for(|draining| *draining).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Completes when nothing runs on the session while another session has a link.
    pub(crate) async fn wait_until_unused(&self, context: &AgentContext) {
        loop {
            sleep(UNUSED_POLL_INTERVAL).await;
            if self.requests.is_empty() && context.links_up() > 1 {
                return;
            }
        }
    }

    /// Waits for the agent's running requests, then closes the session. The process bounds the time.
    pub(crate) async fn drain(&self, context: &AgentContext) {
        context.requests.close();
        tokio::select! {
            () = context.requests.wait() => {}
            _ = self.session.closed() => {}
        }
        self.session.close(CloseReason::Done);
        let _ = timeout(CLOSE_DEADLINE, self.session.closed()).await;
        info!("session closed");
    }
}
