//! The sessions that serve now, for what the agent itself has to say to the hub: any of them will do.

use std::sync::Arc;

use fairlead_dialer::{Exchanges, LinkState};
use tokio::sync::watch;

/// All of one agent.
pub(crate) struct Sessions {
    live: watch::Sender<Live>,
}

#[derive(Default)]
struct Live {
    next: u64,
    sessions: Vec<(u64, Exchanges)>,
}

impl Default for Sessions {
    fn default() -> Self {
        Sessions {
            live: watch::Sender::new(Live::default()),
        }
    }
}

impl Sessions {
    /// The session is one of them until what is returned is dropped.
    pub(crate) fn list(self: &Arc<Self>, exchanges: Exchanges) -> Listed {
        let mut number = 0;
        self.live.send_modify(|live| {
            number = live.next;
            live.next += 1;
            live.sessions.push((number, exchanges));
        });
        Listed {
            sessions: Arc::clone(self),
            number,
        }
    }

    /// One of them, as soon as there is one; rather one whose link is up.
    pub(crate) async fn any(&self) -> Exchanges {
        let mut live = self.live.subscribe();
        loop {
            let found = pick(&live.borrow_and_update().sessions);
            if let Some(found) = found {
                return found;
            }
            // The sender is our own.
            let _ = live.changed().await;
        }
    }
}

fn pick(sessions: &[(u64, Exchanges)]) -> Option<Exchanges> {
    let is_up = |exchanges: &Exchanges| *exchanges.session().link().borrow() == LinkState::Up;
    let mut all = sessions.iter().map(|(_, exchanges)| exchanges);
    let up = all.clone().find(|exchanges| is_up(exchanges));
    up.or_else(|| all.next()).cloned()
}

/// Held by a session that serves.
pub(crate) struct Listed {
    sessions: Arc<Sessions>,
    number: u64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        let number = self.number;
        self.sessions.live.send_modify(|live| {
            live.sessions.retain(|(other, _)| *other != number);
        });
    }
}
