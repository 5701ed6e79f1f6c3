//! Outcome of a request.

use http::{HeaderMap, Response, StatusCode};

use crate::{body::Body, upgrade::Upgraded};

/// Outcome of a request.
pub enum Answer {
    /// An ordinary response, or a refused upgrade. The stream returns to the pool after a cleanly
    /// framed body.
    Response(Response<Body>),
    /// `101`, or `2xx` to a CONNECT: the head, and the stream as raw bytes.
    Upgraded(Response<()>, Upgraded),
}

impl Answer {
    /// Status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Answer::Response(response) => response.status(),
            Answer::Upgraded(head, _) => head.status(),
        }
    }

    /// Headers of the answer.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        match self {
            Answer::Response(response) => response.headers(),
            Answer::Upgraded(head, _) => head.headers(),
        }
    }
}
