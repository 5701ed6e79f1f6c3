//! Parking of a session after another hub opened a new one for its link. The session continues with its own hub
//! under a supervisor of its own, and resumes there after a lost link. It is closed once nothing runs on it.

use std::sync::Arc;

use tokio::time::Instant;
use tracing::info;

use super::{
    session::ServingSession,
    supervisor::{LinkSupervisor, SupervisorState},
};

impl LinkSupervisor {
    /// Continues a session under a parked supervisor, in a task of the process. Until it ends, this link opens
    /// no new session at that hub.
    pub(super) fn park(&mut self, mut session: Box<ServingSession>) {
        let hub = session.home.clone();
        info!(%hub, up = session.link.is_some(), "moved to another hub; the session before is parked");
        if session.is_hub_draining {
            session.registration = None;
        }
        // Its hello is not repeated, and other links may use its hub.
        session.hub = None;
        session.up_since = Instant::now();
        session.is_hub_draining = true;
        session.uid_sent = true;
        let parked = self.for_parked(Arc::new(hub));
        let state = match session.link {
            Some(_) => SupervisorState::Connected(session),
            None => SupervisorState::Reconnecting {
                session,
                moves: false,
            },
        };
        self.context.process.spawn(parked.run_from(state));
    }
}
