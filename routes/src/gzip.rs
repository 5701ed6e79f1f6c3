//! Compression of public documents. Other responses are never compressed: the length of a response
//! that contains a secret next to foreign text reveals the secret (BREACH).
//!
//! Each document is compressed once, on a blocking thread; `tower-http` would compress per request.

use std::{
    collections::HashMap,
    io::Write,
    sync::{LazyLock, Mutex, PoisonError},
};

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    middleware::Next,
    response::Response,
};
use bytes::Bytes;
use fairlead_api::{Code, Failure};
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use crate::reply::Rejected;

/// Limit of a document in bytes; Swagger UI's script uses a quarter of it.
const MAX_DOCUMENT_BYTES: usize = 8 << 20;

/// By path; bounded by the number of documents.
static COMPRESSED: LazyLock<Mutex<HashMap<String, Bytes>>> = LazyLock::new(Mutex::default);

/// Compresses responses of the routes below for clients that accept it.
pub(super) async fn compress(request: Request, next: Next) -> Result<Response, Rejected> {
    let wanted = request.method() == Method::GET && takes_gzip(request.headers());
    let path = request.uri().path().to_owned();
    let mut response = next.run(request).await;
    if response.status() != StatusCode::OK {
        return Ok(response);
    }
    let vary = HeaderValue::from_static("accept-encoding");
    response.headers_mut().insert(header::VARY, vary);
    if !wanted {
        return Ok(response);
    }
    let (mut head, body) = response.into_parts();
    let internal = |error: &dyn std::error::Error| Failure::because(Code::Internal, error);
    let body = to_bytes(body, MAX_DOCUMENT_BYTES).await;
    let body = body.map_err(|error| internal(&error))?;
    let known = lock().get(&path).cloned();
    let body = match known {
        Some(known) => known,
        None => {
            let compressed = tokio::task::spawn_blocking(move || gzip(&body)).await;
            let compressed = compressed.map_err(|error| internal(&error))?;
            let compressed = compressed.map_err(|error| internal(&error))?;
            lock().entry(path).or_insert(compressed).clone()
        }
    };
    let gzip = HeaderValue::from_static("gzip");
    head.headers.insert(header::CONTENT_ENCODING, gzip);
    head.headers.remove(header::CONTENT_LENGTH);
    Ok(Response::from_parts(head, Body::from(body)))
}

fn lock() -> std::sync::MutexGuard<'static, HashMap<String, Bytes>> {
    COMPRESSED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn gzip(text: &[u8]) -> std::io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text)?;
    encoder.finish().map(Bytes::from)
}

/// RFC 9110, 12.5.3: `gzip` or `*` with a weight above zero.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).into_iter();
    let codings = values.filter_map(|value| value.to_str().ok());
    let mut codings = codings.flat_map(|value| value.split(','));
    codings.any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        let refused = weight.is_some_and(|weight| weight.parse() == Ok(0.0_f32));
        (name.eq_ignore_ascii_case("gzip") || name == "*") && !refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_only_to_clients_that_take_it() {
        for (value, takes) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("*", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000, br", false),
            ("identity", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, value.parse().unwrap());
            assert_eq!(takes_gzip(&headers), takes, "{value}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
