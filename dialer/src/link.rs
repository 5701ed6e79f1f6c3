//! One live WebSocket between an agent and a hub: what is said on it ([`frame`]), and why it ends. It counts the bytes each
//! way, so that a session can be resumed over another one, marks them, which proves the peer alive and measures the
//! round trip, and says why it ends.
//!
//! Nothing in a link is secret or believed: it runs outside of our own TLS, so a proxy that ends the outer TLS can read
//! and forge it. All that such a proxy wins is to end the session, which it can do anyway; the reason in a CLOSE is a
//! hint. To go on with a session takes a proof that only its two ends can give.

pub mod frame;

use self::frame::Hello;
use crate::{
    secure,
    session::{CloseReason, SessionError},
    wire::{Impossible, ws::WsError},
};

/// Why a link ended, or never began.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum LinkEnd {
    #[error("closed by the peer ({0:?})")]
    Closed(CloseReason),
    #[error("the peer has been silent for {0:?}")]
    Silent(std::time::Duration),
    #[error("the WebSocket ended without a reason")]
    Eof,
    #[error("the WebSocket broke: {0}")]
    Broken(String),
    /// Perhaps not by the peer: a box between the two may say something of its own when it gives up.
    #[error("the WebSocket is garbled: {0}")]
    Garbled(WsError),
    #[error("the peer broke the protocol: {0}")]
    Protocol(String),
    #[error("{}", secure::explain(.0))]
    Secure(rustls::Error),
    #[error("the peer could not prove that it has this session")]
    Unproved,
    #[error("the peer says to have received {0}")]
    Impossible(Impossible),
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
    /// Whether another link may go on where this one has ended.
    pub(crate) fn can_be_mended(&self) -> bool {
        matches!(
            self,
            LinkEnd::Silent(_) | LinkEnd::Eof | LinkEnd::Broken(_) | LinkEnd::Garbled(_)
        )
    }

    /// A word to count by what the peer did, if that is why.
    pub(crate) const fn rule(&self) -> Option<&'static str> {
        match self {
            LinkEnd::Protocol(_) => Some("link"),
            LinkEnd::Impossible(_) => Some("link_count"),
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

    pub(crate) fn versions(ours: (u8, u8), theirs: Hello) -> Self {
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
            LinkEnd::Closed(reason) => SessionError::Peer(reason),
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
