//! Errors of sessions and streams.

use std::{io, time::Duration};

use crate::close::CloseReason;

/// Reason for the end of a session.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionError {
    /// Closed by this side.
    #[error("closed by this side ({0:?})")]
    Here(CloseReason),
    /// Closed by the peer.
    #[error("closed by the peer ({0:?})")]
    Peer(CloseReason),
    /// No message of the peer for this time.
    #[error("the peer has been silent for {0:?}")]
    Silent(Duration),
    /// The link broke and was not resumed.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The peer broke the protocol; `rule` is a metric label.
    #[error("the peer broke the protocol: {what}")]
    Violation {
        /// Metric label of the rule.
        rule: &'static str,
        /// Description of the violation.
        what: String,
    },
}

impl From<SessionError> for io::Error {
    fn from(error: SessionError) -> Self {
        io::Error::new(io::ErrorKind::ConnectionReset, error)
    }
}

/// Failure to open a stream.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The lower stream limit of both sides is reached.
    #[error("the peer accepts no more streams")]
    Full,
    /// The session has ended.
    #[error("the session ended")]
    Closed(#[source] SessionError),
}
