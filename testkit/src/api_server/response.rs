//! Responses of fixed parts.

use bytes::Bytes;
use fairlead_exchange::Body;
use http::{HeaderValue, Response, StatusCode};

use crate::body::full;

/// Names and values of headers.
pub(crate) type Headers<'a> = &'a [(&'static str, &'a str)];

/// An answer with these headers.
pub(crate) fn respond(status: u16, headers: Headers<'_>, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    for &(name, value) in headers {
        response
            .headers_mut()
            .append(name, HeaderValue::from_str(value).unwrap());
    }
    response
}
