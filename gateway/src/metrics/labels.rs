//! Labels of the gateway's metrics, and the parts of a request's time.

use std::time::Duration;

/// Reason to close a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseCause {
    /// Too many connections of strangers.
    Evicted,
    /// No request came in time.
    NoRequest,
    /// No request was authenticated in time.
    NotAuthenticated,
    /// An authenticated HTTP/2 connection without requests.
    Idle,
}

impl CloseCause {
    pub(super) const ALL: [CloseCause; 4] = [
        CloseCause::Evicted,
        CloseCause::NoRequest,
        CloseCause::NotAuthenticated,
        CloseCause::Idle,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            CloseCause::Evicted => "evicted",
            CloseCause::NoRequest => "no-request",
            CloseCause::NotAuthenticated => "not-authenticated",
            CloseCause::Idle => "idle",
        }
    }

    /// True if running requests may finish.
    pub(crate) const fn is_graceful(self) -> bool {
        matches!(self, CloseCause::NotAuthenticated | CloseCause::Idle)
    }
}

/// Reason to reset an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResetCause {
    /// Its client took nothing for the time limit.
    Timeout,
    /// The memory budget was used up.
    Memory,
}

impl ResetCause {
    pub(super) const ALL: [ResetCause; 2] = [ResetCause::Timeout, ResetCause::Memory];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            ResetCause::Timeout => "timeout",
            ResetCause::Memory => "memory",
        }
    }
}

/// End of a request, as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestEnd {
    /// The API server or a module answered below 400.
    Ok,
    /// The API server or a module answered 4xx.
    Declined,
    /// The API server or a module answered 5xx.
    Erred,
    /// The gateway rejected the request, with 4xx.
    Refused,
    /// The gateway failed, with 5xx.
    Failed,
    /// The answer broke off after its head.
    Aborted,
    /// The client left before the end.
    Left,
    /// The hub ended the running request: its access was gone, or an admin ended it.
    Ended,
}

impl RequestEnd {
    pub(super) const ALL: [RequestEnd; 8] = [
        RequestEnd::Ok,
        RequestEnd::Declined,
        RequestEnd::Erred,
        RequestEnd::Refused,
        RequestEnd::Failed,
        RequestEnd::Aborted,
        RequestEnd::Left,
        RequestEnd::Ended,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            RequestEnd::Ok => "ok",
            RequestEnd::Declined => "declined",
            RequestEnd::Erred => "erred",
            RequestEnd::Refused => "refused",
            RequestEnd::Failed => "failed",
            RequestEnd::Aborted => "aborted",
            RequestEnd::Left => "left",
            RequestEnd::Ended => "ended",
        }
    }
}

/// End of a handshake, as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandshakeOutcome {
    Ok,
    Failed,
    Timeout,
    Evicted,
    /// Ended by the hub.
    Refused,
    /// Ended by an agent that accepts only its old session.
    Declined,
}

impl HandshakeOutcome {
    pub(super) const ALL: [HandshakeOutcome; 6] = [
        HandshakeOutcome::Ok,
        HandshakeOutcome::Failed,
        HandshakeOutcome::Timeout,
        HandshakeOutcome::Evicted,
        HandshakeOutcome::Refused,
        HandshakeOutcome::Declined,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            HandshakeOutcome::Ok => "ok",
            HandshakeOutcome::Failed => "failed",
            HandshakeOutcome::Timeout => "timeout",
            HandshakeOutcome::Evicted => "evicted",
            HandshakeOutcome::Refused => "refused",
            HandshakeOutcome::Declined => "declined",
        }
    }
}

/// This hub's side of a forwarded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HopDirection {
    ToHub,
    FromHub,
}

impl HopDirection {
    pub(super) const ALL: [HopDirection; 2] = [HopDirection::ToHub, HopDirection::FromHub];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            HopDirection::ToHub => "to-hub",
            HopDirection::FromHub => "from-hub",
        }
    }
}

/// State of a session, as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// It serves requests.
    Up,
    /// Its link is up, but the last probe had no answer.
    Silent,
    /// Its link is broken; it waits for its agent.
    Down,
    /// Its agent has not sent its hello.
    Unregistered,
    /// It was replaced or evicted, and finishes its requests.
    Ending,
}

impl SessionState {
    pub(crate) const ALL: [SessionState; 5] = [
        SessionState::Up,
        SessionState::Silent,
        SessionState::Down,
        SessionState::Unregistered,
        SessionState::Ending,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            SessionState::Up => "up",
            SessionState::Silent => "silent",
            SessionState::Down => "down",
            SessionState::Unregistered => "unregistered",
            SessionState::Ending => "ending",
        }
    }
}

/// The TLS that a handshake was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsLayer {
    Front,
    Session,
}

impl TlsLayer {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            TlsLayer::Front => "front",
            TlsLayer::Session => "session",
        }
    }
}

/// Parts of the time until the head of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PhaseTimes {
    pub(crate) gateway: Duration,
    /// `None` for a request that did not wait for a session.
    pub(crate) wait: Option<Duration>,
    /// `None` for a request that never reached a tunnel.
    pub(crate) tunnel: Option<Duration>,
    pub(crate) api: Option<Duration>,
}
