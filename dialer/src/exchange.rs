//! One HTTP request and its answer on one pooled stream. It knows no route, and passes heads and bodies on as they are.
//!
//! An exchange runs in the task of whoever waits for it: there is no task, no channel and no copy of a body on the way.
//! What two parsers could read in two ways is refused, which resets the stream.

mod asking;
mod chunked;
mod client;
mod desk;
mod download;
mod error;
mod framing;
mod gather;
mod head;
mod incoming;
mod outgoing;
mod pool;
mod sending;
mod server;
mod socket;
mod upgrade;
mod wire;

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Empty, combinators::UnsyncBoxBody};

pub use self::{
    client::{Client, Exchanges, SendError},
    error::HttpError,
    outgoing::Outgoing,
    server::{serve, serve_on},
    socket::Socket,
    upgrade::{OnUpgrade, Upgraded},
    wire::Wire,
};
use crate::session::OpenError;

/// The most fields a head has, and its size in bytes.
const MAX_HEADERS: usize = 100;
const MAX_HEAD: usize = 64 * 1024;

/// Why a body ended before its end.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;
/// A body in either direction; trailers pass, if the head announces them (`Trailer`, and `TE: trailers` in the request).
pub type Body = UnsyncBoxBody<Bytes, BodyError>;

fn empty() -> Body {
    Body::new(Empty::new().map_err(|never| match never {}))
}

/// What came back.
pub enum Answer {
    /// An ordinary answer (a refused upgrade too). The stream goes back to the pool after a cleanly framed body.
    Response(Response<Body>),
    /// `101` (or `2xx` to a CONNECT): the head, and the stream as raw bytes from here on.
    Upgraded(Response<()>, Upgraded),
}

#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    #[error("no stream")]
    Open(#[source] OpenError),
    #[error("the stream broke before an answer came")]
    Broken(#[source] BodyError),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("the request body failed")]
    Request(#[source] BodyError),
}

impl ExchangeError {
    /// The peer has answered with what is no HTTP.
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
