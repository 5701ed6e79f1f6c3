//! States of a supervised link, and the transitions between them. Pure: waiting and side effects are in the
//! supervisor.

use super::retry::Retry;

/// Phase of a link. `N` is a new session before its hello, `S` a serving session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LinkPhase<N, S> {
    /// No session: waits before the next dial.
    Waiting(Retry),
    /// No session: obtains an identity and dials.
    Connecting,
    /// Sends the hello over a new session, which does not serve yet.
    Greeting(N),
    /// Serves over a link.
    Connected(S),
    /// Serves over a link with a draining hub, and dials the other hubs.
    Moving(S),
    /// Serves without a link, and dials hubs to resume. `moves`: the session's hub drains.
    Reconnecting { session: S, moves: bool },
    /// Replaces an identity that the hub rejected.
    Replacing(S),
    /// Completes running requests before the process ends.
    Draining(S),
    /// Supervision has ended.
    Stopped,
}

/// Event that may change the phase of a link.
#[derive(Debug)]
pub(crate) enum PhaseEvent<N, S> {
    /// The process drains.
    ProcessDraining,
    /// There are more links than needed, and this one has no session.
    Superfluous,
    /// The delay before the next dial has passed.
    DelayElapsed,
    /// A dial opened a new session.
    Dialed(N),
    /// The hub accepted the hello.
    HelloAccepted(S),
    /// An attempt failed, or the session ended.
    Failed(Retry),
    /// The session's link broke.
    LinkLost,
    /// The hub drains, and other hubs exist.
    HubDraining,
    /// The session continues over a new link.
    Resumed,
    /// The session's own hub has lost the session and opened a new one.
    Superseded(N),
    /// Another hub opened a new session; the present one may still continue at its own hub.
    Moved(N),
    /// The session's own hub has lost the session.
    SessionLost,
    /// The hub rejected the identity for good.
    IdentityRejected,
    /// Another identity is in use.
    IdentityReplaced,
    /// Nothing runs on a parked session.
    Unused,
    /// Running requests are complete.
    Drained,
}

/// Role of a supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SupervisorRole {
    /// Keeps one link with any hub for as long as the process lives.
    Primary,
    /// Keeps one session with its own hub until nothing runs on it.
    Parked,
}

/// Session that leaves its supervisor at a transition.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Released<S> {
    /// Continues under a parked supervisor.
    Park(S),
    /// Closes.
    Close(S),
}

impl<N, S> LinkPhase<N, S> {
    /// Next state, and the session to park or to close. Any other released session is dropped.
    pub(crate) fn next(
        self,
        role: SupervisorRole,
        event: PhaseEvent<N, S>,
    ) -> (Self, Option<Released<S>>) {
        let next = match (self, event) {
            (LinkPhase::Draining(_) | LinkPhase::Stopped, _) => LinkPhase::Stopped,
            (state, PhaseEvent::ProcessDraining | PhaseEvent::Superfluous) => state.drain(),
            (LinkPhase::Waiting(_), PhaseEvent::DelayElapsed) => LinkPhase::Connecting,
            (LinkPhase::Connecting | LinkPhase::Greeting(_), PhaseEvent::Dialed(new)) => {
                LinkPhase::Greeting(new)
            }
            (LinkPhase::Greeting(_), PhaseEvent::HelloAccepted(session)) => {
                LinkPhase::Connected(session)
            }
            (LinkPhase::Connected(session), PhaseEvent::LinkLost) => LinkPhase::Reconnecting {
                session,
                moves: false,
            },
            (LinkPhase::Moving(session), PhaseEvent::LinkLost)
            | (LinkPhase::Reconnecting { session, .. }, PhaseEvent::HubDraining) => {
                LinkPhase::Reconnecting {
                    session,
                    moves: true,
                }
            }
            (LinkPhase::Connected(session), PhaseEvent::HubDraining) => LinkPhase::Moving(session),
            (LinkPhase::Reconnecting { session, moves }, PhaseEvent::Resumed) => match moves {
                true => LinkPhase::Moving(session),
                false => LinkPhase::Connected(session),
            },
            (state, event) => return state.end(role, event),
        };
        (next, None)
    }

    /// Without a session there is nothing to complete.
    fn drain(self) -> Self {
        match self {
            LinkPhase::Connected(session)
            | LinkPhase::Moving(session)
            | LinkPhase::Reconnecting { session, .. } => LinkPhase::Draining(session),
            _ => LinkPhase::Stopped,
        }
    }

    /// Transition out of a session or a failed attempt.
    fn end(self, role: SupervisorRole, event: PhaseEvent<N, S>) -> (Self, Option<Released<S>>) {
        let session = match self {
            LinkPhase::Connected(session)
            | LinkPhase::Moving(session)
            | LinkPhase::Reconnecting { session, .. } => Some(session),
            _ => None,
        };
        match (role, event, session) {
            (SupervisorRole::Parked, _, session) => {
                (LinkPhase::Stopped, session.map(Released::Close))
            }
            (_, PhaseEvent::Moved(new), session) => {
                (LinkPhase::Greeting(new), session.map(Released::Park))
            }
            (_, PhaseEvent::Superseded(new), _) => (LinkPhase::Greeting(new), None),
            (_, PhaseEvent::IdentityRejected, Some(session)) => {
                (LinkPhase::Replacing(session), None)
            }
            (_, PhaseEvent::IdentityReplaced, session) => (
                LinkPhase::Waiting(Retry::Soon),
                session.map(Released::Close),
            ),
            (_, PhaseEvent::Failed(retry), _) => (LinkPhase::Waiting(retry), None),
            _ => (LinkPhase::Waiting(Retry::Soon), None),
        }
    }
}

#[cfg(test)]
mod tests;
