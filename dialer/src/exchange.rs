//! One HTTP request and its response on one pooled stream. It knows no routes, and passes heads and
//! bodies on unchanged.
//!
//! An exchange runs in the caller's task: without a task, a channel or a copy of a body. Messages
//! that two parsers could read in two ways are refused, which resets the stream.

mod chunked;
mod client;
mod download;
mod error;
mod framing;
mod gather;
mod head;
mod in_flight;
mod incoming;
mod outgoing;
mod pool;
mod request_reader;
mod sending;
mod server;
mod socket;
mod transport;
mod upgrade;

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Empty, combinators::UnsyncBoxBody};

pub use self::{
    client::{Client, Exchanges, SendError},
    error::HttpError,
    outgoing::Outgoing,
    server::{serve, serve_on},
    socket::SocketTransport,
    transport::Transport,
    upgrade::{OnUpgrade, Upgraded},
};
use crate::session::OpenError;

/// Limit of the fields of a head.
const MAX_HEADERS: usize = 100;
const MAX_HEAD: usize = 64 * 1024;

/// Reason for a body that broke off.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;
/// Body in either direction. Trailers pass if the head announces them (`Trailer`, and `TE:
/// trailers` in the request).
pub type Body = UnsyncBoxBody<Bytes, BodyError>;

fn empty() -> Body {
    Body::new(Empty::new().map_err(|never| match never {}))
}

/// Outcome of a request.
pub enum Answer {
    /// An ordinary response, or a refused upgrade. The stream returns to the pool after a cleanly
    /// framed body.
    Response(Response<Body>),
    /// `101`, or `2xx` to a CONNECT: the head, and the stream as raw bytes.
    Upgraded(Response<()>, Upgraded),
}

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

#[cfg(test)]
mod tests;
