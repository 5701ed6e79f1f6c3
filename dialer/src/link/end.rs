//! Reasons for the end of a link.

use super::frame::LinkHello;
use crate::{close::CloseReason, error::SessionError, tls::explain, websocket::WsError};

/// Reason for the end of a link, or for its failure to begin.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum LinkEnd {
    /// Outside of the inner TLS, so possibly by a middlebox: a hint at most. The peer itself ends a session by a GOAWAY
    /// inside of the inner TLS.
    #[error("the link was closed ({0:?})")]
    Closed(CloseReason),
    #[error("the peer has been silent for {0:?}")]
    Silent(std::time::Duration),
    #[error("the WebSocket ended without a CLOSE")]
    Eof,
    #[error("the WebSocket broke: {0}")]
    Broken(String),
    /// Possibly sent by a middlebox that gives up, not by the peer.
    #[error("invalid WebSocket frame: {0}")]
    Garbled(WsError),
    #[error("the peer broke the protocol: {0}")]
    Protocol(String),
    #[error("{}", explain(.0))]
    Secure(rustls::Error),
    #[error("the peer's proof for the session is invalid")]
    Unproved,
    #[error("the peer's received count is invalid: {0}")]
    InvalidCount(InvalidCount),
    #[error(
        "no link version in common: the peer speaks {theirs_low} to {theirs_high}, this side {ours_low} to {ours_high}"
    )]
    Versions {
        theirs_low: u8,
        theirs_high: u8,
        ours_low: u8,
        ours_high: u8,
    },
}

impl LinkEnd {
    /// True if another link may resume the session.
    pub(crate) fn is_resumable(&self) -> bool {
        matches!(
            self,
            LinkEnd::Closed(_)
                | LinkEnd::Silent(_)
                | LinkEnd::Eof
                | LinkEnd::Broken(_)
                | LinkEnd::Garbled(_)
        )
    }

    /// Metric label of a protocol violation; `None` if the peer broke no rule.
    pub(crate) const fn rule(&self) -> Option<&'static str> {
        match self {
            LinkEnd::Protocol(_) => Some("link"),
            LinkEnd::InvalidCount(_) => Some("link_count"),
            LinkEnd::Unproved => Some("link_proof"),
            LinkEnd::Secure(_) => Some("tls"),
            LinkEnd::Closed(_)
            | LinkEnd::Silent(_)
            | LinkEnd::Eof
            | LinkEnd::Broken(_)
            | LinkEnd::Garbled(_)
            | LinkEnd::Versions { .. } => None,
        }
    }

    pub(crate) fn versions(ours: (u8, u8), theirs: LinkHello) -> Self {
        LinkEnd::Versions {
            theirs_low: theirs.lowest,
            theirs_high: theirs.highest,
            ours_low: ours.0,
            ours_high: ours.1,
        }
    }
}

impl From<LinkEnd> for SessionError {
    fn from(end: LinkEnd) -> Self {
        match end {
            LinkEnd::Silent(silence) => SessionError::Silent(silence),
            other => match other.rule() {
                None => SessionError::Broken(other.to_string()),
                Some(rule) => SessionError::Violation {
                    rule,
                    what: other.to_string(),
                },
            },
        }
    }
}

/// Received count that the peer cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidCount {
    #[error("below the acknowledged count")]
    BelowAcknowledged,
    #[error("above the sent count")]
    AboveSent,
    #[error("within a message")]
    WithinMessage,
}
