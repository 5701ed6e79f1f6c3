//! Reasons for refusing HTTP input. The stream is dropped then, which resets it; nothing is guessed
//! or skipped.

use std::{io, time::Duration};

use fairlead_dialer::OpenError;

use crate::body::BodyError;

/// Failure of a request before its response.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// No stream could be opened.
    #[error("cannot open a stream")]
    Open(#[source] OpenError),
    /// The stream broke before a response.
    #[error("the stream broke before a response")]
    Broken(#[source] BodyError),
    /// No response's head within the deadline.
    #[error("no response within {0:?}")]
    Timeout(Duration),
    /// The body of the request failed.
    #[error("the request body failed")]
    Request(#[source] BodyError),
}

impl ExchangeError {
    /// True if the peer's response was invalid HTTP.
    #[must_use]
    pub fn is_violation(&self) -> bool {
        let ExchangeError::Broken(cause) = self else {
            return false;
        };
        let http = cause.downcast_ref::<HttpError>();
        http.is_some_and(|error| matches!(error, HttpError::Malformed(_) | HttpError::TooLarge))
    }
}

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

pub(crate) const fn malformed<T>(what: &'static str) -> Result<T, HttpError> {
    Err(HttpError::Malformed(what))
}
