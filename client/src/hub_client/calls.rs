//! Requests and their answers.

use std::time::Duration;

use bytes::Bytes;
use fairlead_api::{Code, Failure, Reason, resources::ExchangeToken};
use http::{HeaderMap, HeaderName, Method, StatusCode, header};
use reqwest::{Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{BoxError, HubClient, HubError};

const REQUEST_DEADLINE: Duration = Duration::from_secs(30);
/// Limit of a response body in bytes, enough for some 100,000 clusters.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// A resource with its ETag.
#[derive(Debug, Clone)]
pub struct Tagged {
    /// The resource.
    pub value: Value,
    /// Its ETag.
    pub tag: String,
}

/// Precondition of a change; the hub refuses the change with `FL-4114` if it does not hold.
#[derive(Debug, Clone, Copy)]
pub enum Precondition<'a> {
    /// The resource does not exist.
    Absent,
    /// The resource still has this ETag.
    Unchanged(&'a str),
}

impl Precondition<'_> {
    fn header(self) -> (HeaderName, String) {
        match self {
            Precondition::Absent => (header::IF_NONE_MATCH, "*".to_owned()),
            Precondition::Unchanged(tag) => (header::IF_MATCH, tag.to_owned()),
        }
    }
}

impl HubClient {
    /// Gets a JSON response.
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, HubError> {
        from_json(&self.send(Method::GET, path, Bytes::new()).await?)
    }

    /// Gets a text response.
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn get_text(&self, path: &str) -> Result<String, HubError> {
        let body = self.send(Method::GET, path, Bytes::new()).await?;
        String::from_utf8(body.to_vec()).map_err(|_| malformed("it is no text"))
    }

    /// Gets one page of a list, and the path of the next page (RFC 8288).
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn get_page<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<(T, Option<String>), HubError> {
        let (headers, body) = self.request(Method::GET, path, None, Bytes::new()).await?;
        let link = headers.get(header::LINK).and_then(|it| it.to_str().ok());
        let next = link.and_then(|it| it.strip_prefix('<')?.strip_suffix(">; rel=\"next\""));
        let next = next.filter(|it| it.starts_with('/'));
        Ok((from_json(&body)?, next.map(str::to_owned)))
    }

    /// Posts JSON and reads the response.
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, HubError> {
        from_json(&self.send(Method::POST, path, to_json(body)?).await?)
    }

    /// Posts without a body and reads the response.
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn post_empty<T: DeserializeOwned>(&self, path: &str) -> Result<T, HubError> {
        from_json(&self.send(Method::POST, path, Bytes::new()).await?)
    }

    /// Posts without a body and ignores the response body.
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn order(&self, path: &str) -> Result<(), HubError> {
        self.send(Method::POST, path, Bytes::new()).await.map(drop)
    }

    /// Puts JSON and reads the response.
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn put<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, HubError> {
        from_json(&self.send(Method::PUT, path, to_json(body)?).await?)
    }

    /// Gets a resource; `None` if it does not exist or is not visible.
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn get_optional<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Option<T>, HubError> {
        optional(self.get(path).await)
    }

    /// Gets a resource with its ETag; `None` if it does not exist or is not visible.
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn get_tagged(&self, path: &str) -> Result<Option<Tagged>, HubError> {
        let Some((headers, body)) =
            optional(self.request(Method::GET, path, None, Bytes::new()).await)?
        else {
            return Ok(None);
        };
        let tag = headers
            .get(header::ETAG)
            .and_then(|tag| tag.to_str().ok())
            .ok_or_else(|| malformed("it has no ETag"))?;
        Ok(Some(Tagged {
            value: from_json(&body)?,
            tag: tag.to_owned(),
        }))
    }

    /// Changes a resource under a precondition, and returns the new state.
    ///
    /// # Errors
    /// [`HubError::Outdated`] if the precondition does not hold; [`HubError`]
    pub async fn send_conditional(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        precondition: Precondition<'_>,
    ) -> Result<Value, HubError> {
        let precondition = Some(precondition.header());
        let (_, body) = self
            .request(method, path, precondition, to_json(body)?)
            .await?;
        from_json(&body)
    }

    /// Sends JSON and ignores the response body.
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn send_json<B: Serialize>(
        &self,
        method: Method,
        path: &str,
        body: &B,
    ) -> Result<(), HubError> {
        self.send(method, path, to_json(body)?).await.map(drop)
    }

    /// Deletes a resource.
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn delete(&self, path: &str) -> Result<(), HubError> {
        self.send(Method::DELETE, path, Bytes::new())
            .await
            .map(drop)
    }

    /// Deletes resources, and reads the response.
    ///
    /// # Errors
    /// [`HubError`]
    pub async fn delete_with_answer<T: DeserializeOwned>(&self, path: &str) -> Result<T, HubError> {
        from_json(&self.send(Method::DELETE, path, Bytes::new()).await?)
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, HubError> {
        self.request(method, path, None, body)
            .await
            .map(|(_, body)| body)
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        precondition: Option<(HeaderName, String)>,
        body: Bytes,
    ) -> Result<(HeaderMap, Bytes), HubError> {
        let token = self.token().await?;
        self.request_as(token, method, path, precondition, body)
            .await
    }

    pub(super) async fn request_as(
        &self,
        token: Option<SecretString>,
        method: Method,
        path: &str,
        precondition: Option<(HeaderName, String)>,
        body: Bytes,
    ) -> Result<(HeaderMap, Bytes), HubError> {
        let exchange = tokio::time::timeout(
            REQUEST_DEADLINE,
            self.exchange(method, path, token, precondition, body),
        );
        let (status, headers, body) = match exchange.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(self.failed(error.as_ref()).into()),
            Err(_) => {
                let cause = format!("no answer within {} s", REQUEST_DEADLINE.as_secs());
                return Err(self.unreachable(&cause).into());
            }
        };
        if status.is_success() {
            Ok((headers, body))
        } else {
            Err(self.refusal(status, &body).into())
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        token: Option<SecretString>,
        precondition: Option<(HeaderName, String)>,
        body: Bytes,
    ) -> Result<(StatusCode, HeaderMap, Bytes), BoxError> {
        let content_type = match method {
            Method::PATCH => "application/merge-patch+json",
            // The one route with a form.
            _ if path == ExchangeToken::PATH => "application/x-www-form-urlencoded",
            _ => "application/json",
        };
        let mut request = self
            .http
            .request(method, self.at(path)?)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, content_type)
            .body(body);
        if let Some(token) = token {
            request = request.bearer_auth(token.expose_secret());
        }
        if let Some((name, value)) = precondition {
            request = request.header(name, value);
        }
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(error) => return Err(self.cause_of(error).await),
        };
        let body = read_whole(&mut response).await?;
        Ok((response.status(), response.headers().clone(), body))
    }

    /// URL of a path. A path segment `..` would lead to another resource, so it is rejected.
    pub(super) fn at(&self, path: &str) -> Result<Url, BoxError> {
        let url = Url::parse(&format!("https://{}{path}", self.url.authority()))?;
        match path.split('?').next() == Some(url.path()) {
            true => Ok(url),
            false => Err(format!("{path} is no path of the hub").into()),
        }
    }
}

pub(super) const fn is_about_token(code: Code) -> bool {
    matches!(code, Code::NoToken | Code::BadToken | Code::TokenExpired)
}

pub(super) async fn read_whole(response: &mut Response) -> Result<Bytes, BoxError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
            return Err(format!("the response exceeds {MAX_RESPONSE_BYTES} bytes").into());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.into())
}

fn to_json<B: Serialize>(body: &B) -> Result<Bytes, HubError> {
    let internal = |error| Failure::because(Code::Internal, error);
    let body = serde_json::to_vec(body).map_err(internal)?;
    Ok(body.into())
}

pub(super) fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, HubError> {
    serde_json::from_slice(body).map_err(malformed)
}

fn malformed(why: impl std::fmt::Display) -> HubError {
    let detail = format_args!("its answer is not understood: {why}");
    Failure::because(Code::HubUnreachable, detail).into()
}

/// Converts the error for a missing resource into `None`.
fn optional<T>(answer: Result<T, HubError>) -> Result<Option<T>, HubError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(HubError::NotFound(_) | HubError::NoSuchCluster(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Failure in the response of the hub, or the HTTP status if the response is not from a hub.
pub(super) fn error_response(status: StatusCode, body: &[u8]) -> Failure {
    let told = serde_json::from_slice::<Reason>(body).map(Failure::from);
    told.unwrap_or_else(|_| {
        Failure::because(
            Code::HubUnreachable,
            format_args!("the server is not a hub; its response has status {status}"),
        )
    })
}
