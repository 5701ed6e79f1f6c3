//! Reasons for refusing HTTP input. The stream is dropped then, which resets it; nothing is guessed
//! or skipped.

use std::io;

/// Reason for refusing HTTP input.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// More than 64 KiB or 100 fields: the only refusal with a response (431).
    #[error("the head is too large")]
    TooLarge,
    /// Invalid or ambiguous input.
    #[error("{0}")]
    Malformed(&'static str),
    /// The peer ended its direction within a message.
    #[error("the message is truncated")]
    Cut,
    /// The transport failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<HttpError> for io::Error {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::Io(error) => error,
            HttpError::Cut => io::Error::new(io::ErrorKind::UnexpectedEof, error),
            HttpError::TooLarge | HttpError::Malformed(_) => {
                io::Error::new(io::ErrorKind::InvalidData, error)
            }
        }
    }
}

pub(super) const fn malformed<T>(what: &'static str) -> Result<T, HttpError> {
    Err(HttpError::Malformed(what))
}
