//! Sessions that serve now. The agent's own requests to the hub may use any of them.

use std::{sync::Arc, time::Duration};

use fairlead_dialer::{LinkState, Stats};
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
    ended: Traffic,
}

/// Traffic of all sessions since the start of the agent, and their state.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traffic {
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) resumptions: u64,
    pub(crate) bytes_repeated: u64,
    /// Shortest round trip of a session with a link.
    pub(crate) rtt: Option<Duration>,
    pub(crate) links_up: usize,
    pub(crate) links_down: usize,
}

impl Traffic {
    fn add(&mut self, stats: &Stats) {
        self.bytes_in = self.bytes_in.saturating_add(stats.bytes_in);
        self.bytes_out = self.bytes_out.saturating_add(stats.bytes_out);
        self.resumptions = self.resumptions.saturating_add(stats.resumptions);
        self.bytes_repeated = self.bytes_repeated.saturating_add(stats.bytes_repeated);
    }
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

    /// Traffic so far.
    pub(crate) fn traffic(&self) -> Traffic {
        let registered = self.registered.borrow();
        let mut traffic = registered.ended;
        for (_, exchanges) in &registered.sessions {
            let stats = exchanges.session().stats();
            traffic.add(&stats);
            if exchanges.session().is_up() {
                traffic.links_up += 1;
                traffic.rtt = traffic.rtt.into_iter().chain(stats.rtt).min();
            } else {
                traffic.links_down += 1;
            }
        }
        traffic
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
            let at = registered.sessions.iter().position(|(it, _)| *it == number);
            if let Some(at) = at {
                let (_, exchanges) = registered.sessions.remove(at);
                registered.ended.add(&exchanges.session().stats());
            }
        });
    }
}
