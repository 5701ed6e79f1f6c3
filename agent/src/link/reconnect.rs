//! Dials for a serving session. Without a link, hubs are dialled in turn, its own first, until one resumes the
//! session or opens a new one. A session of a draining hub continues while the other hubs are dialled.

use std::time::Duration;

use fairlead_api::HubUrl;
use fairlead_dialer::{Dialed, LinkState, Redialed, Session};
use tokio::time::sleep;
use tracing::warn;

use super::{dial::HubDialer, retry::is_refusal, session::ServingSession};
use crate::{
    backoff::{Backoff, chance},
    identity::Identity,
};

/// Lifetime from which a link or a session counts as stable and resets the back-off.
pub(crate) const STABLE_AFTER: Duration = Duration::from_secs(2);

/// Dials to attempt for a serving session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RedialTarget {
    /// Any hub, to resume the session.
    AnyHub,
    /// Hubs other than the session's own, for a new session.
    OtherHubs,
}

/// Result of dials for a serving session.
pub(crate) enum Reconnected {
    /// The session continues over a new link.
    Resumed,
    /// Its own hub has lost the session and opened a new one.
    Superseded(Box<Dialed>),
    /// Another hub opened a new session; the present one is not over.
    Moved(Box<Dialed>),
    /// Its own hub has lost the session; the dial requested no new one.
    Lost,
    /// The hub rejects this identity for good.
    Rejected,
}

/// Completes when the session's link breaks. The end of the session is another event.
pub(crate) async fn wait_for_lost_link(session: &Session) {
    let mut link = session.link();
    let state = link.wait_for(|link| *link != LinkState::Up).await;
    let state = state.map(|state| state.clone());
    let Ok(LinkState::Down {
        last_error: cause, ..
    }) = state
    else {
        return std::future::pending().await;
    };
    warn!(cause, "link lost; reconnecting");
}

/// Redials until one dial has a result. `home` is the hub with the lost link, `lived` the lifetime of that link.
pub(crate) async fn redial(
    dialer: &mut HubDialer,
    backoff: &mut Backoff,
    spread: Duration,
    (session, identity): (&Session, &Identity),
    (home, lived): (&HubUrl, Duration),
) -> Reconnected {
    if lived >= STABLE_AFTER {
        backoff.reset();
    }
    loop {
        sleep(backoff.next_for_hub(spread, chance())).await;
        match dialer.redial(identity, (session, home)).await {
            Ok(Redialed::Resumed { .. }) => return Reconnected::Resumed,
            Ok(Redialed::New(dialed)) if dialer.dialed_hub().as_ref() == Some(home) => {
                return Reconnected::Superseded(Box::new(dialed));
            }
            Ok(Redialed::New(dialed)) => return Reconnected::Moved(Box::new(dialed)),
            Ok(Redialed::Unknown { .. }) => return Reconnected::Lost,
            Err(error) if is_refusal(error.code) => return Reconnected::Rejected,
            // The dialer has logged the failure.
            Err(_) => {}
        }
    }
}

/// Dials hubs other than `home` until one dial has a result.
pub(crate) async fn dial_other_hubs(
    dialer: &mut HubDialer,
    backoff: &mut Backoff,
    identity: &Identity,
    home: &HubUrl,
) -> Reconnected {
    loop {
        sleep(backoff.next(chance())).await;
        if dialer.next_hub(identity).as_ref() == Some(home) {
            dialer.advance(identity);
        }
        if dialer.next_hub(identity).as_ref() == Some(home) {
            // All other hubs have parked sessions of this link, or are in use by other links.
            continue;
        }
        match dialer.dial_new(identity).await {
            Ok(dialed) => return Reconnected::Moved(Box::new(dialed)),
            Err(error) if is_refusal(error.code) => return Reconnected::Rejected,
            // The dialer has logged the failure.
            Err(_) => {}
        }
    }
}

/// Dials for a session, as its state requires.
pub(crate) async fn dial_for(
    session: &ServingSession,
    target: RedialTarget,
    dialer: &mut HubDialer,
    backoff: &mut Backoff,
    spread: Duration,
) -> Reconnected {
    let identity = &session.identity;
    match target {
        RedialTarget::AnyHub => {
            let lost = (&session.home, session.up_since.elapsed());
            redial(dialer, backoff, spread, (&session.session, identity), lost).await
        }
        RedialTarget::OtherHubs => dial_other_hubs(dialer, backoff, identity, &session.home).await,
    }
}
