//! Requests to the HTTP API of one Git server: bounded in time and size, without redirects, with
//! the server's rate limit. Texts of errors contain no token.

mod limits;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use fairlead_api::error_chain;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use reqwest::Client;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;

pub(crate) use limits::RateLimit;

/// Deadline of one request with its response.
const REQUEST_DEADLINE: Duration = Duration::from_secs(15);
/// Limit of a response body, in bytes.
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;
/// Maximum quoted length of a server's message, in characters.
const MAX_MESSAGE_CHARS: usize = 300;
const USER_AGENT: &str = concat!("fairlead/", env!("CARGO_PKG_VERSION"));

/// A failed request; each variant is another decision of the reconciler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    #[error("not found")]
    Missing,
    /// With the new address of the resource on the same server.
    #[error("the resource has another address now")]
    Moved(Option<Url>),
    /// A resource with that name or in another state exists.
    #[error("{0}")]
    Conflict(String),
    /// The request was refused for its content.
    #[error("{0}")]
    Refused(String),
    /// The token is invalid or expired.
    #[error("the server does not accept the hub's token: {0}")]
    Unauthorized(String),
    #[error("the hub's token lacks a right: {0}")]
    Forbidden(String),
    #[error("the server limits the rate of requests")]
    Throttled { wait: Duration },
    #[error("{0}")]
    Unavailable(String),
}

/// Header that carries the token.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TokenHeader {
    /// `Authorization: <scheme> <token>`
    Authorization(&'static str),
    /// `PRIVATE-TOKEN: <token>`
    Private,
}

/// HTTP API of a server with the credentials of one caller.
#[derive(Clone)]
pub(crate) struct ApiCalls {
    pub(crate) http: Client,
    /// Address of the API without a slash at its end.
    pub(crate) base: Url,
    pub(crate) token: Option<(TokenHeader, SecretString)>,
    pub(crate) accept: &'static str,
    pub(crate) limit: Arc<RateLimit>,
}

/// Request to a path below the API's address.
pub(crate) struct ApiRequest<'a> {
    pub(crate) method: Method,
    /// Segments of the path; a slash in a segment is encoded.
    pub(crate) path: &'a [&'a str],
    pub(crate) query: &'a [(&'a str, &'a str)],
    pub(crate) body: Option<Value>,
}

impl<'a> ApiRequest<'a> {
    pub(crate) fn new(method: Method, path: &'a [&'a str]) -> Self {
        ApiRequest {
            method,
            path,
            query: &[],
            body: None,
        }
    }

    pub(crate) fn get(path: &'a [&'a str]) -> Self {
        Self::new(Method::GET, path)
    }

    pub(crate) fn query(mut self, query: &'a [(&'a str, &'a str)]) -> Self {
        self.query = query;
        self
    }

    pub(crate) fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }
}

/// A successful response.
pub(crate) struct ApiAnswer {
    pub(crate) headers: HeaderMap,
    /// `null` for an empty body.
    pub(crate) body: Value,
}

impl ApiCalls {
    /// Sends a request.
    ///
    /// # Errors
    /// [`CallError`]
    pub(crate) async fn call(&self, request: ApiRequest<'_>) -> Result<ApiAnswer, CallError> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(request.path);
        }
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(request.query);
        }
        self.call_url(request.method, url, request.body).await
    }

    /// Follows the new address of a resource, once and on the same server.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Missing`] without an address.
    pub(crate) async fn follow(&self, moved: Option<Url>) -> Result<ApiAnswer, CallError> {
        let url = moved.ok_or(CallError::Missing)?;
        self.call_url(Method::GET, url, None).await
    }

    async fn call_url(
        &self,
        method: Method,
        url: Url,
        body: Option<Value>,
    ) -> Result<ApiAnswer, CallError> {
        if let Some(wait) = self.limit.remaining() {
            return Err(CallError::Throttled { wait });
        }
        let mut request = self
            .http
            .request(method, url.clone())
            .timeout(REQUEST_DEADLINE)
            .header(header::ACCEPT, self.accept)
            .header(header::USER_AGENT, USER_AGENT);
        if let Some((name, value)) = self.token_header()? {
            request = request.header(name, value);
        }
        if let Some(body) = body {
            let content = HeaderValue::from_static("application/json");
            request = request.header(header::CONTENT_TYPE, content);
            request = request.body(body.to_string());
        }
        let mut answer = request.send().await.map_err(unreachable)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(unreachable)? {
            if bytes.len() + chunk.len() > MAX_RESPONSE_BYTES {
                let cause = format!("the response exceeds {MAX_RESPONSE_BYTES} bytes");
                return Err(CallError::Unavailable(cause));
            }
            bytes.extend_from_slice(&chunk);
        }
        let now = SystemTime::now();
        if let Some(wait) = limits::wait_of(status, &headers, now) {
            self.limit.pause(wait);
            if !status.is_success() {
                return Err(CallError::Throttled { wait });
            }
        }
        self.judge(&url, status, headers, &bytes)
    }

    fn judge(
        &self,
        url: &Url,
        status: StatusCode,
        headers: HeaderMap,
        bytes: &[u8],
    ) -> Result<ApiAnswer, CallError> {
        let message = || self.without_token(&message_of(status, bytes));
        Err(match status.as_u16() {
            200..=299 if bytes.iter().all(u8::is_ascii_whitespace) => {
                let body = Value::Null;
                return Ok(ApiAnswer { headers, body });
            }
            200..=299 => match serde_json::from_slice(bytes) {
                Ok(body) => return Ok(ApiAnswer { headers, body }),
                Err(_) => CallError::Unavailable("the response is no JSON".to_owned()),
            },
            301 | 302 | 303 | 307 | 308 => CallError::Moved(same_server(url, &headers)),
            401 => CallError::Unauthorized(message()),
            403 => CallError::Forbidden(message()),
            404 | 410 => CallError::Missing,
            409 => CallError::Conflict(message()),
            400 | 405 | 413 | 415 | 422 | 423 | 451 => CallError::Refused(message()),
            _ => CallError::Unavailable(message()),
        })
    }

    fn token_header(&self) -> Result<Option<(&'static str, HeaderValue)>, CallError> {
        let Some((header, token)) = &self.token else {
            return Ok(None);
        };
        let token = token.expose_secret();
        let (name, value) = match header {
            TokenHeader::Authorization(scheme) => ("authorization", format!("{scheme} {token}")),
            TokenHeader::Private => ("private-token", token.to_owned()),
        };
        let cause = || CallError::Unauthorized("it has characters that no header has".to_owned());
        let mut value = HeaderValue::from_str(&value).map_err(|_| cause())?;
        value.set_sensitive(true);
        Ok(Some((name, value)))
    }

    /// A server may repeat the token in its message.
    fn without_token(&self, text: &str) -> String {
        match &self.token {
            Some((_, token)) if !token.expose_secret().is_empty() => {
                text.replace(token.expose_secret(), "***")
            }
            _ => text.to_owned(),
        }
    }
}

fn unreachable(error: reqwest::Error) -> CallError {
    let error = error.without_url();
    CallError::Unavailable(error_chain(&error))
}

/// The address of a redirect, if it stays on the server: the token must not reach another one.
fn same_server(url: &Url, headers: &HeaderMap) -> Option<Url> {
    let location = headers.get(header::LOCATION)?.to_str().ok()?;
    let target = url.join(location).ok()?;
    (target.origin() == url.origin()).then_some(target)
}

/// Status and message of an error response.
fn message_of(status: StatusCode, bytes: &[u8]) -> String {
    let body: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let mut parts = Vec::new();
    for field in ["message", "error", "error_description"] {
        match body.get(field) {
            Some(Value::String(text)) if !text.is_empty() => parts.push(text.clone()),
            Some(Value::Object(map)) => parts.push(Value::from(map.clone()).to_string()),
            _ => {}
        }
    }
    let errors = body.get("errors").and_then(Value::as_array);
    for error in errors.into_iter().flatten() {
        let text = error.get("message").and_then(Value::as_str);
        parts.extend(text.or_else(|| error.as_str()).map(str::to_owned));
    }
    parts.dedup();
    let text = match parts.is_empty() {
        true => format!("status {}", status.as_u16()),
        false => format!("status {}: {}", status.as_u16(), parts.join("; ")),
    };
    text.chars().take(MAX_MESSAGE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_all_providers_are_quoted() {
        for (body, expected) in [
            (
                r#"{"message":"key is in use"}"#,
                "status 422: key is in use",
            ),
            (
                r#"{"message":"Validation Failed","errors":[{"message":"key is already in use"}]}"#,
                "status 422: Validation Failed; key is already in use",
            ),
            (
                r#"{"message":{"key":["has already been taken"]}}"#,
                "status 422: {\"key\":[\"has already been taken\"]}",
            ),
            (r#"{"error":"invalid_token"}"#, "status 422: invalid_token"),
            ("<html>", "status 422"),
        ] {
            let text = message_of(StatusCode::UNPROCESSABLE_ENTITY, body.as_bytes());
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn redirects_to_another_server_are_not_followed() {
        let url: Url = "https://git.example/api/v4/projects/1".parse().unwrap();
        let target = |location: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::LOCATION, location.parse().unwrap());
            same_server(&url, &headers).map(String::from)
        };
        let same = "https://git.example/api/v4/projects/2";
        assert_eq!(target("/api/v4/projects/2").as_deref(), Some(same));
        assert_eq!(target("https://evil.example/api/v4/projects/2"), None);
        assert_eq!(target("http://git.example/api/v4/projects/2"), None);
        assert_eq!(target("https://git.example:8443/"), None);
    }
}
