//! Answers that report a failure: a `metav1.Status` in the encoding that the client accepts, or a [`Reason`].
//!
//! The code of the failure is a header too, for scripts.

use fairlead_api::{
    Code, Failure, Reason,
    headers::AGENT_CODE,
    status::{self, Encoding},
};
use fairlead_exchange::Body;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use super::body;

/// Format of a failure in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Status(Encoding),
    Reason,
}

/// Renders a failure that a module left in the extensions, with the headers that the module has set (such as `Allow`).
pub(crate) fn render_embedded(
    mut response: Response<Body>,
    shape: Shape,
) -> (Response<Body>, Option<Code>) {
    let Some(failure) = response.extensions_mut().remove::<Failure>() else {
        return (response, None);
    };
    if shape == Shape::Reason {
        // The module has written the body already.
        set_headers(&mut response, failure.code);
        return (response, Some(failure.code));
    }
    let mut rendered = render(&failure, shape);
    for (name, value) in response.headers() {
        if !rendered.headers().contains_key(name) && name != header::CONTENT_LENGTH {
            rendered.headers_mut().append(name, value.clone());
        }
    }
    (rendered, Some(failure.code))
}

/// The encoding that the client's `Accept` headers ask for.
pub(crate) fn accepted(headers: &HeaderMap) -> Encoding {
    encoding(headers.get_all(header::ACCEPT))
}

/// The encoding that these values of `Accept` ask for.
pub(crate) fn encoding<'a>(accepts: impl IntoIterator<Item = &'a HeaderValue>) -> Encoding {
    let accepts: Vec<&str> = accepts
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    Encoding::accepted_by(&accepts.join(","))
}

pub(crate) fn render(failure: &Failure, shape: Shape) -> Response<Body> {
    let http_status = status::http_status(failure.code);
    let (http_status, content_type, body) = match shape {
        Shape::Status(encoding) => {
            let http_status = encoding.status(http_status);
            let body = encoding.encode(failure, http_status);
            (http_status, encoding.content_type(), body)
        }
        Shape::Reason => {
            let body = Reason::from(failure).to_json();
            (http_status, Encoding::Json.content_type(), body)
        }
    };
    let mut response = Response::new(body::full(body));
    *response.status_mut() =
        StatusCode::from_u16(http_status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let content_type = HeaderValue::from_static(content_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    set_headers(&mut response, failure.code);
    response
}

/// Whole answer of HTTP/1.1 for a client whose request is unknown, as the last one of its connection.
pub(crate) fn render_last(failure: &Failure) -> Vec<u8> {
    let answer = render(failure, Shape::Status(Encoding::Json));
    let status = answer.status();
    let body = Encoding::Json.encode(failure, status.as_u16());
    let mut bytes = format!("HTTP/1.1 {status}\r\nconnection: close\r\n").into_bytes();
    for (name, value) in answer.headers() {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

/// Sets the headers of an answer that reports a failure.
fn set_headers(response: &mut Response<Body>, code: Code) {
    let http_status = response.status().as_u16();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(text) = HeaderValue::from_str(&code.to_string()) {
        headers.insert(AGENT_CODE, text);
    }
    if http_status == 401 {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(seconds) = status::retry_after(code).filter(|_| retries_soon(code)) {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
}

/// True if a client's own retry soon helps, and the rejected request had no effect.
///
/// client-go retries ten times on a `Retry-After` with 429 or 5xx before it reports anything. All other failures reach a
/// person at once; programs find the seconds in the `Status`.
const fn retries_soon(code: Code) -> bool {
    matches!(
        code,
        // Limits on concurrent requests and memory: others end at any moment.
        Code::BodyMemoryFull | Code::AgentFull | Code::TooManyRequests | Code::AgentOverBudget
            | Code::TooManyTransfers
            // The next connection reaches another hub, or the restarted one.
            | Code::Draining
            | Code::StoreAway
    )
}

#[cfg(test)]
mod tests;
