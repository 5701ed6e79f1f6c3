//! Why what a peer sent is no HTTP that can be passed on. Whoever meets one drops the stream, which resets it; nothing is
//! guessed, and nothing is skipped to find the next message.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// More than 64 KiB or 100 fields: the one refusal that is told (431).
    #[error("the head is larger than it may be")]
    TooLarge,
    #[error("{0}")]
    Malformed(&'static str),
    /// The peer ended its direction where something was still to come.
    #[error("it ended before its end")]
    Cut,
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
