//! Answers to HTTP/1 heads that cannot be read, or are too large: with code, cause and next step.

use bytes::Bytes;
use fairlead_api::{Code, Failure};
use fairlead_exchange::HttpError;

use crate::http::failure::render_last;

/// Whole answer to a refused head.
pub(crate) fn refusal(error: &HttpError) -> Bytes {
    let failure = match error {
        HttpError::TooLarge => Failure::new(Code::HeadTooLarge),
        error => Failure::because(Code::BadRequest, error),
    };
    render_last(&failure).into()
}
