//! Outcome of a request.

use http::Response;

use crate::{body::Body, upgrade::Upgraded};

/// Outcome of a request.
pub enum Answer {
    /// An ordinary response, or a refused upgrade. The stream returns to the pool after a cleanly
    /// framed body.
    Response(Response<Body>),
    /// `101`, or `2xx` to a CONNECT: the head, and the stream as raw bytes.
    Upgraded(Response<()>, Upgraded),
}
