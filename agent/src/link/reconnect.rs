//! A session whose link is down: hubs are dialled in turn, its own first, until one goes on with the session or gives another
//! one. What has not been heard of elsewhere is not over: its own hub may still have it. And one whose hub is about to go: the
//! others are dialled, while it goes on.

use std::time::Duration;

use fairlead_dialer::{Dialed, LinkState, Redialed, Session};
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::{dial::HubDialer, retry::is_refusal};
use crate::{
    backoff::{Backoff, chance},
    identity::Identity,
};

/// A link that held for so long was a good one.
const GOOD: Duration = Duration::from_secs(2);

pub(crate) enum Reconnected {
    /// Nothing has happened, but for a pause.
    Resumed,
    /// Its own hub knows the session no more, and has a new one for this agent.
    Anew(Box<Dialed>),
    /// Another hub has a new one; the one before is not over.
    Elsewhere(Box<Dialed>),
    /// Its own hub knows the session no more, and was asked for nothing else.
    Over,
    /// The hub does not take this identity, which no other try will change.
    Refused,
}

/// Completes when the session's link is lost. The session's end is told otherwise.
pub(crate) async fn lost(session: &Session) {
    let mut link = session.link();
    let state = link.wait_for(|link| *link != LinkState::Up).await;
    let state = state.map(|state| state.clone());
    let Ok(LinkState::Down {
        last_error: cause, ..
    }) = state
    else {
        return std::future::pending().await;
    };
    warn!(cause, "connection lost; the session waits for another");
}

/// Tries for as long as it is polled. `home` is the place of the hub that had the lost link, `up` when that came up.
pub(crate) async fn mend(
    dialer: &mut HubDialer,
    backoff: &mut Backoff,
    spread: Duration,
    (session, identity): (&Session, &Identity),
    (home, up): (usize, Instant),
) -> Reconnected {
    if up.elapsed() >= GOOD {
        backoff.reset();
    }
    loop {
        sleep(backoff.next_for_hub(spread, chance())).await;
        match dialer.redial(identity, session).await {
            Ok(Redialed::Resumed { .. }) => return Reconnected::Resumed,
            Ok(Redialed::New(dialed)) if dialer.hub_index(identity) == home => {
                return Reconnected::Anew(Box::new(dialed));
            }
            Ok(Redialed::New(dialed)) => return Reconnected::Elsewhere(Box::new(dialed)),
            Ok(Redialed::Unknown { .. }) => return Reconnected::Over,
            Err(error) if is_refusal(error.code) => return Reconnected::Refused,
            // Its line in the log says it.
            Err(_) => {}
        }
    }
}

/// Tries the other hubs for as long as it is polled. `left` is the place of the one that is about to go.
pub(crate) async fn move_on(
    dialer: &mut HubDialer,
    backoff: &mut Backoff,
    left: usize,
    identity: &Identity,
) -> Reconnected {
    loop {
        sleep(backoff.next(chance())).await;
        if dialer.hub_index(identity) == left {
            dialer.advance();
        }
        if dialer.hub_index(identity) == left {
            // At the others a session of this link has stayed.
            continue;
        }
        match dialer.dial_new(identity).await {
            Ok(dialed) => return Reconnected::Elsewhere(Box::new(dialed)),
            Err(error) if is_refusal(error.code) => return Reconnected::Refused,
            // Its line in the log says it.
            Err(_) => {}
        }
    }
}
