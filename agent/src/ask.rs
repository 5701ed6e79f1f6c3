//! What the agent asks the hub for itself, over a stream of its own session: enrolment and renewal; and what it says of
//! itself there.

use std::time::Duration;

use fairlead_api::{Code, Failure, enroll::MAX_BODY};
use fairlead_dialer::{Answer, BodyError, ExchangeError, Exchanges};
use http::{HeaderValue, Method, Request, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, de::DeserializeOwned};
use tokio::time::timeout;

use crate::body;

/// For the whole exchange.
const DEADLINE: Duration = Duration::from_secs(30);

/// Why the hub did not do it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error("the hub could not be asked")]
    Exchange(#[from] ExchangeError),
    #[error("the hub's answer broke off")]
    Body(#[source] BodyError),
    #[error("the hub did not answer within {} s", DEADLINE.as_secs())]
    Timeout,
    #[error(transparent)]
    Refused(Failure),
    #[error("the hub answered {0}, and not with what it was asked for")]
    Unexpected(StatusCode),
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        let code = match error {
            AskError::Refused(failure) => return failure,
            AskError::Exchange(_) | AskError::Body(_) => Code::SessionBroke,
            AskError::Timeout => Code::DialTimeout,
            AskError::Unexpected(_) => Code::DialProtocol,
        };
        Failure {
            code,
            cause: crate::chain(&error),
        }
    }
}

/// Posts `json` to `path`.
///
/// # Errors
/// [`AskError`]; what was posted is not repeated in it.
pub(crate) async fn post<T: DeserializeOwned>(
    exchanges: &Exchanges,
    path: &'static str,
    json: SecretString,
) -> Result<T, AskError> {
    timeout(DEADLINE, exchange(exchanges, path, json))
        .await
        .map_err(|_| AskError::Timeout)?
}

async fn exchange<T: DeserializeOwned>(
    exchanges: &Exchanges,
    path: &'static str,
    json: SecretString,
) -> Result<T, AskError> {
    let mut request = Request::new(body::text(json.expose_secret().to_owned()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = http::Uri::from_static(path);
    let headers = request.headers_mut();
    headers.insert(header::HOST, HeaderValue::from_static("hub"));
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let response = match exchanges.send(request).await? {
        Answer::Response(response) => response,
        Answer::Upgraded(head, _) => return Err(AskError::Unexpected(head.status())),
    };
    let status = response.status();
    let body = body::whole(response.into_body(), MAX_BODY)
        .await
        .map_err(AskError::Body)?;
    if status != StatusCode::OK && status != StatusCode::CREATED {
        return Err(refusal(&body).map_or(AskError::Unexpected(status), AskError::Refused));
    }
    serde_json::from_slice(&body).map_err(|_| AskError::Unexpected(status))
}

/// The code and the cause in a `metav1.Status` of the hub.
fn refusal(body: &[u8]) -> Option<Failure> {
    #[derive(Deserialize)]
    struct Status {
        details: Details,
    }
    #[derive(Deserialize)]
    struct Details {
        causes: Vec<Cause>,
    }
    #[derive(Deserialize)]
    struct Cause {
        reason: Code,
        message: String,
    }
    let status: Status = serde_json::from_slice(body).ok()?;
    let cause = status.details.causes.into_iter().next()?;
    Some(Failure {
        code: cause.reason,
        cause: cause.message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hubs_own_code_is_read_from_its_status() {
        let told = Failure::because(Code::BootstrapSpent, "by another key");
        let body = fairlead_api::status::Encoding::Json.encode(&told, 401);
        assert_eq!(refusal(&body), Some(told));
        for other in [
            "",
            "{}",
            "[]",
            "<html>",
            r#"{"details":{"causes":[]}}"#,
            r#"{"details":{"causes":[{"reason":"X"}]}}"#,
        ] {
            assert_eq!(refusal(other.as_bytes()), None, "{other}");
        }
    }
}
