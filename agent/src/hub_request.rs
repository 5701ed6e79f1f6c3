//! Requests of the agent to the hub over a stream of its own session: hello, enrolment, renewal, configuration,
//! facts.

use std::time::Duration;

use bytes::Bytes;
use fairlead_api::{
    Code, Failure, Reason, config::MAX_CONFIG_BYTES, enroll::MAX_ENROLL_BODY_BYTES, error_chain,
};
use fairlead_exchange::{Answer, Body, BodyError, ExchangeError, Exchanges, body};
use http::{HeaderValue, Method, Request, StatusCode, header, response::Parts};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

/// Deadline of a whole exchange.
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

/// Reason for a failed request to the hub.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HubRequestError {
    #[error("the request did not reach the hub")]
    Exchange(#[from] ExchangeError),
    #[error("the hub's answer broke off")]
    Body(#[source] BodyError),
    #[error("the hub did not answer within {} s", REQUEST_DEADLINE.as_secs())]
    Timeout,
    #[error(transparent)]
    Refused(Failure),
    #[error("the hub answered {0} with an unexpected document")]
    Unexpected(StatusCode),
}

impl From<HubRequestError> for Failure {
    fn from(error: HubRequestError) -> Self {
        let code = match error {
            HubRequestError::Refused(failure) => return failure,
            HubRequestError::Exchange(_) | HubRequestError::Body(_) => Code::SessionBroke,
            HubRequestError::Timeout => Code::DialTimeout,
            HubRequestError::Unexpected(_) => Code::DialProtocol,
        };
        Failure::with_cause(code, error_chain(&error))
    }
}

/// Posts `json` to `path`.
///
/// # Errors
///
/// [`HubRequestError`]. It never quotes the posted body.
pub(crate) async fn post<T: DeserializeOwned>(
    exchanges: &Exchanges,
    path: &'static str,
    json: SecretString,
) -> Result<T, HubRequestError> {
    timeout(REQUEST_DEADLINE, exchange(exchanges, path, json))
        .await
        .map_err(|_| HubRequestError::Timeout)?
}

/// Posts to `path` without a body.
///
/// # Errors
///
/// [`HubRequestError`].
pub(crate) async fn notify(
    exchanges: &Exchanges,
    path: &'static str,
) -> Result<(), HubRequestError> {
    let request = post_request(path, body::empty());
    let sent = timeout(
        REQUEST_DEADLINE,
        send(exchanges, request, MAX_ENROLL_BODY_BYTES),
    );
    let (head, body) = sent.await.map_err(|_| HubRequestError::Timeout)??;
    match head.status {
        StatusCode::NO_CONTENT => Ok(()),
        status => Err(refused(status, &body)),
    }
}

/// Document of the hub with its entity tag.
#[derive(Debug)]
pub(crate) struct TaggedDocument<T> {
    pub(crate) etag: String,
    pub(crate) value: T,
}

/// Gets `path`, unless its entity tag is still `known`.
///
/// # Errors
///
/// [`HubRequestError`].
pub(crate) async fn get<T: DeserializeOwned>(
    exchanges: &Exchanges,
    path: &'static str,
    known: Option<&str>,
) -> Result<Option<TaggedDocument<T>>, HubRequestError> {
    let mut request = Request::new(body::empty());
    *request.uri_mut() = http::Uri::from_static(path);
    let tag = known.map(|known| format!("\"{known}\""));
    let own = [
        (header::HOST.as_str(), "hub"),
        (header::ACCEPT.as_str(), "application/json"),
    ];
    let tag = tag
        .as_deref()
        .map(|tag| (header::IF_NONE_MATCH.as_str(), tag));
    for (name, value) in own.into_iter().chain(tag) {
        if let Ok(value) = HeaderValue::from_str(value) {
            request.headers_mut().insert(name, value);
        }
    }
    let answering = async {
        let (head, body) = send(exchanges, request, MAX_CONFIG_BYTES).await?;
        let status = head.status;
        match status {
            StatusCode::NOT_MODIFIED => return Ok(None),
            StatusCode::OK => {}
            _ => return Err(refused(status, &body)),
        }
        let etag = head
            .headers
            .get(header::ETAG)
            .and_then(|etag| etag.to_str().ok());
        let value =
            serde_json::from_slice(&body).map_err(|_| HubRequestError::Unexpected(status))?;
        Ok(Some(TaggedDocument {
            etag: etag.unwrap_or_default().trim_matches('"').to_owned(),
            value,
        }))
    };
    timeout(REQUEST_DEADLINE, answering)
        .await
        .map_err(|_| HubRequestError::Timeout)?
}

/// Sends a request; returns the response's head and its whole body.
async fn send(
    exchanges: &Exchanges,
    request: Request<Body>,
    limit: usize,
) -> Result<(Parts, Bytes), HubRequestError> {
    let response = match exchanges.send(request).await? {
        Answer::Response(response) => response,
        Answer::Upgraded(head, _) => return Err(HubRequestError::Unexpected(head.status())),
    };
    let (head, body) = response.into_parts();
    let body = body::read(body, limit)
        .await
        .map_err(HubRequestError::Body)?;
    Ok((head, body))
}

fn post_request(path: &'static str, body: Body) -> Request<Body> {
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    *request.uri_mut() = http::Uri::from_static(path);
    let host = HeaderValue::from_static("hub");
    request.headers_mut().insert(header::HOST, host);
    request
}

fn refused(status: StatusCode, body: &[u8]) -> HubRequestError {
    match serde_json::from_slice::<Reason>(body) {
        Ok(reason) => HubRequestError::Refused(reason.into()),
        Err(_) => HubRequestError::Unexpected(status),
    }
}

async fn exchange<T: DeserializeOwned>(
    exchanges: &Exchanges,
    path: &'static str,
    json: SecretString,
) -> Result<T, HubRequestError> {
    let mut request = post_request(path, body::full(json.expose_secret().to_owned()));
    let headers = request.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let (head, body) = send(exchanges, request, MAX_ENROLL_BODY_BYTES).await?;
    let status = head.status;
    if status != StatusCode::OK && status != StatusCode::CREATED {
        return Err(refused(status, &body));
    }
    serde_json::from_slice(&body).map_err(|_| HubRequestError::Unexpected(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hub_failure_keeps_code_cause_and_next_step() {
        let status = StatusCode::UNAUTHORIZED;
        let sent = Failure::because(Code::BootstrapSpent, "by another key").next("Renew it.");
        let body = Reason::from(&sent).to_json();
        assert!(matches!(refused(status, &body), HubRequestError::Refused(read) if read == sent));
        for other in ["", "{}", "[]", "<html>", r#"{"reason":"x","code":"X"}"#] {
            let error = refused(status, other.as_bytes());
            assert!(matches!(error, HubRequestError::Unexpected(_)), "{other}");
        }
    }
}
