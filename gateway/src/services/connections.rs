//! Idle connections to the targets of services by http, for the next requests.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use fairlead_exchange::{Client, SocketTransport, Upgraded};

use crate::agents::entry::SessionEntry;

/// Idle connections to one target over one session.
const MAX_IDLE: usize = 8;
/// Open streams of a session, idle ones included, beyond which no more connections stay idle: a session has a limited number.
const MAX_STREAMS: usize = 128;

/// Sends requests to the target of a service.
type TargetClient = Client<SocketTransport<Upgraded>>;

/// Idle connections to the target of one service, apart for each session. They end with the session or the service, or
/// after a minute.
///
/// Only reads use them: the target may close one at any time, and a write must not be sent twice.
#[derive(Default)]
pub(crate) struct TargetConnections {
    clients: Mutex<Vec<(Weak<SessionEntry>, TargetClient)>>,
}

impl TargetConnections {
    /// The client over this session; `None` if its request has to use a connection of its own.
    pub(crate) fn over(&self, session: &Arc<SessionEntry>) -> Option<TargetClient> {
        if session.session().stats().streams_open > MAX_STREAMS {
            return None;
        }
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|(session, _)| session.strong_count() > 0);
        let is_own = |it: &Weak<SessionEntry>| Weak::as_ptr(it) == Arc::as_ptr(session);
        if let Some((_, client)) = clients.iter().find(|(it, _)| is_own(it)) {
            return Some(client.clone());
        }
        let client = Client::new(MAX_IDLE).with_new_transports_for_writes();
        clients.push((Arc::downgrade(session), client.clone()));
        Some(client)
    }
}
