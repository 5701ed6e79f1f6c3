//! Sessions that are left: with a hub that is about to go, after the agent has moved to another one, and all of them when the
//! agent's own process drains. What runs on them comes to its end.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use fairlead_dialer::{CloseReason, Session};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tracing::info;

use crate::site::{Connected, Site};

/// How long the hub may take to take note of the end.
const FAREWELL: Duration = Duration::from_secs(5);
/// Sessions of one link that were left and have not ended. A hub ends them when it goes; one that does not, and says all the
/// same that it goes, is not believed for ever.
const MOST: usize = 4;

/// Those of one link.
pub(crate) struct Left {
    site: Arc<Site>,
    sessions: VecDeque<Session>,
}

impl Left {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        Left {
            site,
            sessions: VecDeque::new(),
        }
    }

    /// Has a session serve until the hub ends it, in a task that the process owns.
    pub(crate) fn finish(
        &mut self,
        session: Session,
        serving: AbortOnDropHandle<()>,
        connected: Option<Connected>,
    ) {
        info!("moved to another hub; what runs finishes at the one before");
        while self.sessions.len() >= MOST
            && let Some(oldest) = self.sessions.pop_front()
        {
            oldest.close(CloseReason::Done);
        }
        self.sessions.push_back(session.clone());
        let site = self.site.clone();
        self.site.process.spawn(async move {
            tokio::select! {
                error = session.closed() => info!(cause = %error, "the session that was left has ended"),
                () = site.process.draining() => drain(&site, &session).await,
            }
            drop((serving, connected));
        });
    }
}

/// Lets what runs come to its end, then takes leave. The process bounds how long that may take.
pub(crate) async fn drain(site: &Site, session: &Session) {
    site.requests.close();
    tokio::select! {
        () = site.requests.wait() => {}
        _ = session.closed() => {}
    }
    session.close(CloseReason::Done);
    let _ = timeout(FAREWELL, session.closed()).await;
    info!("session closed");
}
