//! Sessions that serve now. The agent's own requests to the hub may use any of them.

use std::sync::Arc;

use fairlead_dialer::LinkState;
use fairlead_exchange::Exchanges;
use tokio::sync::watch;

/// Serving sessions of one agent.
pub(crate) struct ServingSessions {
    registered: watch::Sender<Registered>,
}

#[derive(Default)]
struct Registered {
    next: u64,
    sessions: Vec<(u64, Exchanges)>,
}

impl Default for ServingSessions {
    fn default() -> Self {
        ServingSessions {
            registered: watch::Sender::new(Registered::default()),
        }
    }
}

impl ServingSessions {
    /// Registers a session until the guard is dropped.
    pub(crate) fn register(self: &Arc<Self>, exchanges: Exchanges) -> SessionRegistration {
        let mut number = 0;
        self.registered.send_modify(|registered| {
            number = registered.next;
            registered.next += 1;
            registered.sessions.push((number, exchanges));
        });
        SessionRegistration {
            sessions: Arc::clone(self),
            number,
        }
    }

    /// Waits for a session; prefers one with a link.
    pub(crate) async fn any(&self) -> Exchanges {
        let mut registered = self.registered.subscribe();
        loop {
            let found = pick(&registered.borrow_and_update().sessions);
            if let Some(found) = found {
                return found;
            }
            // The sender is in `self`.
            let _ = registered.changed().await;
        }
    }
}

fn pick(sessions: &[(u64, Exchanges)]) -> Option<Exchanges> {
    let is_up = |exchanges: &Exchanges| *exchanges.session().link().borrow() == LinkState::Up;
    let mut all = sessions.iter().map(|(_, exchanges)| exchanges);
    let up = all.clone().find(|exchanges| is_up(exchanges));
    up.or_else(|| all.next()).cloned()
}

/// Guard of a registered session.
pub(crate) struct SessionRegistration {
    sessions: Arc<ServingSessions>,
    number: u64,
}

impl Drop for SessionRegistration {
    fn drop(&mut self) {
        let number = self.number;
        self.sessions.registered.send_modify(|registered| {
            registered.sessions.retain(|(other, _)| *other != number);
        });
    }
}
