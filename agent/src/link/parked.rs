//! A session whose hub does not answer, or is about to go, after another hub has given this link a new one. Whenever it has no
//! link it waits for its own hub, for as long as that keeps it, and goes on there; once nothing runs on it any more it is closed.
//! Where its hub is there, what runs must notice no more than a pause.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use fairlead_api::HubUrl;
use fairlead_dialer::{CloseReason, Exchanges, Session};
use tokio::time::{Instant, sleep};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::{info, warn};

use super::{
    dial::HubDialer,
    drain::drain,
    identity_manager::IdentityManager,
    reconnect::{Reconnected, lost, mend},
    renewal,
};
use crate::{
    backoff::Backoff,
    context::{AgentContext, LinkGuard, sessions::SessionRegistration},
    identity::Identity,
};

/// How often it is looked whether anything still runs on it.
const LOOK: Duration = Duration::from_secs(5);

/// A session that serves, with all that serves it.
pub(crate) struct Served {
    pub(crate) session: Session,
    pub(crate) exchanges: Exchanges,
    pub(crate) serving: AbortOnDropHandle<()>,
    /// What runs on it.
    pub(crate) requests: TaskTracker,
    /// The agent's own requests may go over it, unless its hub is about to go.
    pub(crate) listed: Option<SessionRegistration>,
}

/// What stays with one hub.
pub(crate) struct Beside {
    pub(crate) context: Arc<AgentContext>,
    pub(crate) identities: Arc<IdentityManager>,
    /// To its hub, and for nothing new.
    pub(crate) dialer: HubDialer,
    pub(crate) backoff: Backoff,
    pub(crate) served: Served,
    /// While it has a link.
    pub(crate) connected: Option<LinkGuard>,
    pub(crate) identity: Arc<Identity>,
}

impl Beside {
    /// Has it go on in a task that the process owns. What is returned lives until it is over.
    pub(crate) fn stay(self, hub: HubUrl) -> Weak<HubUrl> {
        let hub = Arc::new(hub);
        let stays = Arc::downgrade(&hub);
        let process = self.context.process.clone();
        process.spawn(async move {
            self.run(&hub).await;
        });
        stays
    }

    async fn run(mut self, hub: &HubUrl) {
        let context = self.context;
        let Served {
            session,
            exchanges,
            serving: _serving,
            requests,
            listed: _listed,
        } = self.served;
        let version = self.dialer.version().to_owned();
        let (mut connected, mut up) = (self.connected, Instant::now());
        loop {
            tokio::select! {
                error = session.closed() => {
                    info!(%hub, cause = %error, "the session that stayed with its hub has ended");
                    return;
                }
                () = context.process.draining() => return drain(&context, &session).await,
                () = lost(&session), if connected.is_some() => connected = None,
                mended = async {
                    let spread = context.reconnect_spread.get();
                    let (dialer, backoff) = (&mut self.dialer, &mut self.backoff);
                    mend(dialer, backoff, spread, (&session, &self.identity), (0, up)).await
                }, if connected.is_none() => {
                    let Reconnected::Resumed = mended else {
                        warn!(%hub, "the hub knows the session no more; what ran on it is over");
                        session.close(CloseReason::Done);
                        return;
                    };
                    (connected, up) = (Some(context.count_link()), Instant::now());
                }
                renewed = renewal::renew_when_due(&self.identity, &exchanges, &version) => {
                    self.identity = self.identities.store_renewed(renewed).await;
                }
                () = unused(&context, &requests), if connected.is_some() => {
                    info!(%hub, "nothing runs any more on the session that stayed with its hub");
                    session.close(CloseReason::Done);
                    return;
                }
            }
        }
    }
}

/// Completes when nothing runs on a session that has a link, and another session has one as well.
async fn unused(context: &AgentContext, requests: &TaskTracker) {
    loop {
        sleep(LOOK).await;
        if requests.is_empty() && context.links_up() > 1 {
            return;
        }
    }
}
