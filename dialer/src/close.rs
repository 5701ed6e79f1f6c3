//! Reasons for closing a session, as both ends know them.

/// Reason for closing a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The hub shuts down.
    Draining,
    /// A newer session took its place.
    Replaced,
    /// The cluster was deleted.
    Deleted,
    /// The agent's certificate has expired.
    Expired,
    /// The peer broke the protocol or has no access.
    Protocol,
    /// The session is not needed any more.
    Done,
    /// The peer's identity is used in another cluster than the one it was issued for.
    Cloned,
    /// The peer's identity was revoked: by hand, by a newer key, or with the move of its cluster.
    Revoked,
    /// The hub needs the place of this handshake for another peer.
    Busy,
}

impl CloseReason {
    /// Code in a link's CLOSE message.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            CloseReason::Draining => 1,
            CloseReason::Replaced => 2,
            CloseReason::Deleted => 3,
            CloseReason::Expired => 4,
            CloseReason::Protocol => 5,
            CloseReason::Done => 6,
            CloseReason::Cloned => 7,
            CloseReason::Revoked => 8,
            CloseReason::Busy => 9,
        }
    }

    /// Reads the code of a CLOSE message. Unknown codes, as of a later version, map to `Done`.
    #[must_use]
    pub const fn from_code(code: u16) -> Self {
        match code {
            1 => CloseReason::Draining,
            2 => CloseReason::Replaced,
            3 => CloseReason::Deleted,
            4 => CloseReason::Expired,
            5 => CloseReason::Protocol,
            7 => CloseReason::Cloned,
            8 => CloseReason::Revoked,
            9 => CloseReason::Busy,
            _ => CloseReason::Done,
        }
    }
}
