//! Client of a hub's API. Each request has one deadline; consecutive requests share a connection.

mod error;
mod failed;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use fairlead_api::{
    Code, Failure, HubUrl, Reason,
    resources::{ExchangeToken, ExchangedToken},
};
use fairlead_dialer::ProxyRules;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use reqwest::{Client, Response, Url, redirect};
use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use time::OffsetDateTime;

use crate::{
    environment::Environment,
    exchanged::{CachedToken, ExchangeStore},
    files,
    http_client::client_builder,
    logins::{self, SavedLogin},
    sign_in::SignInStore,
};

pub use error::HubError;

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

/// Origin of the token that a client sends.
#[derive(Clone)]
pub enum Credential {
    /// A token of the hub, or none for open routes.
    Token(Option<SecretString>),
    /// A stored sign-in, refreshed ahead of its end.
    SignIn(SignInStore),
    /// A token of a CI's issuer, exchanged at the hub.
    Exchange(ExchangeStore),
}

/// Client of one hub with the caller's token.
#[derive(Clone)]
pub struct HubClient {
    url: HubUrl,
    credential: Credential,
    ca: Option<String>,
    http: Client,
    /// TLS configuration that ignores validity periods, only for reading the hub's time.
    tls_at_any_time: Arc<rustls::ClientConfig>,
    proxy: ProxyRules,
    /// Next step for a rejected token, which depends on the token's origin.
    new_token_step: Option<Arc<str>>,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl HubClient {
    /// Client for the hub of `FAIRLEAD_URL`, `FAIRLEAD_TOKEN` (or `FAIRLEAD_TOKEN_FILE`) and `FAIRLEAD_CA_FILE`. Each variable
    /// takes precedence over the stored login. A token of an issuer (`FAIRLEAD_ISSUER_TOKEN_FILE`, `FAIRLEAD_ISSUER_TOKEN`)
    /// is exchanged, if there is no other one.
    ///
    /// # Errors
    /// `FL-4106` without hub or token, `FL-4101` for an invalid variable; unreadable files.
    pub fn from_environment(environment: &Environment) -> Result<Self, Failure> {
        let place = Place::of(environment, None)?;
        let token = match (
            environment.get("FAIRLEAD_TOKEN"),
            environment.get("FAIRLEAD_TOKEN_FILE"),
        ) {
            (Some(token), _) => Some(SecretString::from(token)),
            (None, Some(file)) => Some(files::token(file.as_ref())?),
            (None, None) => None,
        };
        let exchange = ExchangeStore::of(environment, None).filter(|_| token.is_none());
        let known = place.known.as_ref();
        let token = token.or_else(|| known.and_then(|hub| hub.token.clone()));
        let is_signed_in = known.is_some_and(|hub| hub.issuer.is_some());
        let credential = match (exchange, token) {
            (Some(exchange), _) => Credential::Exchange(exchange),
            (None, Some(token)) => Credential::Token(Some(token)),
            (None, None) if is_signed_in => Credential::SignIn(SignInStore::of(environment)?),
            (None, None) => {
                let cause = format!("no token for {} is known", place.url);
                return Err(Failure::with_cause(Code::NotLoggedIn, cause));
            }
        };
        let step = match &credential {
            Credential::Exchange(_) => {
                "Give the job a new token of its issuer; `fairlead token exchange` shows whether the hub accepts it.".to_owned()
            }
            _ => logins::new_token_step(environment, &place.url, known),
        };
        let hub =
            HubClient::with_credential(place.url, credential, place.ca, environment.proxy()?)?;
        Ok(HubClient {
            new_token_step: Some(step.into()),
            ..hub
        })
    }

    /// Client that exchanges tokens of this store, for `hub` or else the hub of `FAIRLEAD_URL` or the current login.
    ///
    /// # Errors
    /// `FL-4106` without hub, `FL-4101` for an invalid variable; unreadable files.
    pub fn exchanging(
        environment: &Environment,
        hub: Option<&HubUrl>,
        store: ExchangeStore,
    ) -> Result<Self, Failure> {
        let place = Place::of(environment, hub)?;
        let credential = Credential::Exchange(store);
        HubClient::with_credential(place.url, credential, place.ca, environment.proxy()?)
    }

    /// Client for a hub with a certificate of the system's CAs or of `ca` (PEM).
    ///
    /// # Errors
    /// `FL-4101` for an invalid token or CA.
    pub fn new(
        url: HubUrl,
        token: SecretString,
        ca: Option<String>,
        proxy: ProxyRules,
    ) -> Result<Self, Failure> {
        HubClient::with_credential(url, Credential::Token(Some(token)), ca, proxy)
    }

    /// Client with any credential, as [`HubClient::new`].
    ///
    /// # Errors
    /// `FL-4101` for an invalid token or CA.
    pub fn with_credential(
        url: HubUrl,
        credential: Credential,
        ca: Option<String>,
        proxy: ProxyRules,
    ) -> Result<Self, Failure> {
        if let Credential::Token(Some(token)) = &credential
            && HeaderValue::from_str(token.expose_secret()).is_err()
        {
            let detail = "the token has characters that no token has";
            return Err(Failure::because(Code::BadConfig, detail));
        }
        let http = http_client(&url, ca.as_deref(), &proxy)?;
        let tls_at_any_time = fairlead_certs::outer_client_at_any_time(ca.as_deref(), None)?;
        Ok(HubClient {
            url,
            credential,
            ca,
            http,
            tls_at_any_time,
            proxy,
            new_token_step: None,
        })
    }

    /// URL of the hub.
    #[must_use]
    pub const fn url(&self) -> &HubUrl {
        &self.url
    }

    /// Credential of the caller.
    #[must_use]
    pub const fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Token of the caller; `None` for open routes.
    ///
    /// # Errors
    /// Failures of the sign-in.
    pub async fn token(&self) -> Result<Option<SecretString>, Failure> {
        match &self.credential {
            Credential::Token(token) => Ok(token.clone()),
            Credential::Exchange(store) => Ok(Some(self.exchanged(store).await?.token().clone())),
            Credential::SignIn(store) => match store.current(&self.url).await {
                Ok(stored) => Ok(Some(stored.token().clone())),
                Err(error) => {
                    let failure = Failure::from(error);
                    let step = format!("Sign in again with `fairlead login {}`.", self.url);
                    Err(match failure.code {
                        Code::SignInEnded | Code::NotLoggedIn => failure.next(step),
                        _ => failure,
                    })
                }
            },
        }
    }

    /// The token of the hub for a token of an issuer, exchanged again ahead of its end.
    ///
    /// # Errors
    /// Failures of the hub; `FL-4119`, `FL-4112`.
    pub async fn exchanged(&self, store: &ExchangeStore) -> Result<CachedToken, Failure> {
        let issuer_token = store.issuer_token()?;
        let known = store.load(&self.url, &issuer_token);
        let is_fresh = |it: &CachedToken| OffsetDateTime::now_utc() < it.refresh_after();
        if let Some(known) = known.as_ref().filter(|it| is_fresh(it)) {
            return Ok(known.clone());
        }
        match (self.exchange_token(&issuer_token).await, known) {
            (Ok(exchanged), _) => {
                let cached = CachedToken::new(self.url.clone(), &exchanged);
                store.save(&cached, &issuer_token)?;
                Ok(cached)
            }
            // The token of the issuer ends before the one of the hub.
            (Err(_), Some(known)) => Ok(known),
            (Err(error), None) => Err(error),
        }
    }

    /// Exchanges a token of an issuer (RFC 8693).
    ///
    /// # Errors
    /// Failures of the hub.
    pub async fn exchange_token(
        &self,
        issuer_token: &SecretString,
    ) -> Result<ExchangedToken, Failure> {
        let form = percent_encoded(&[
            ("grant_type", ExchangeToken::GRANT_TYPE),
            ("subject_token_type", ExchangeToken::JWT),
            ("subject_token", issuer_token.expose_secret()),
        ]);
        let path = ExchangeToken::PATH;
        let answer = self.request_as(None, Method::POST, path, None, form.into());
        Ok(from_json(&answer.await?.1)?)
    }

    /// CA of the hub's certificate, if it is not one of the system's.
    #[must_use]
    pub fn ca(&self) -> Option<&str> {
        self.ca.as_deref()
    }

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

    async fn request_as(
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
            let failure = error_response(status, &body);
            let failure = match &self.new_token_step {
                Some(step) if is_about_token(failure.code) => failure.next(step.to_string()),
                _ => failure,
            };
            Err(failure.into())
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
    fn at(&self, path: &str) -> Result<Url, BoxError> {
        let url = Url::parse(&format!("https://{}{path}", self.url.authority()))?;
        match path.split('?').next() == Some(url.path()) {
            true => Ok(url),
            false => Err(format!("{path} is no path of the hub").into()),
        }
    }

    fn unreachable(&self, cause: &str) -> Failure {
        Failure::because(Code::HubUnreachable, format_args!("{}: {cause}", self.url))
    }
}

/// A hub, its CA and the stored login.
struct Place {
    url: HubUrl,
    ca: Option<String>,
    known: Option<SavedLogin>,
}

impl Place {
    /// The given hub, or else that of the environment, or else the current one.
    fn of(environment: &Environment, hub: Option<&HubUrl>) -> Result<Self, Failure> {
        let asked = environment
            .get("FAIRLEAD_URL")
            .filter(|_| hub.is_none())
            .map(str::parse::<HubUrl>)
            .transpose();
        let asked = asked.map_err(|error| {
            Failure::because(Code::BadConfig, format_args!("FAIRLEAD_URL: {error}"))
        })?;
        let asked = asked.or_else(|| hub.cloned());
        let ca = environment
            .get("FAIRLEAD_CA_FILE")
            .map(|file| files::read(file.as_ref()))
            .transpose()?;
        let known = logins::load(environment)?.remove(asked.as_ref());
        let url = asked.or_else(|| known.as_ref().map(|hub| hub.url.clone()));
        Ok(Place {
            url: url.ok_or(Code::NotLoggedIn)?,
            ca: ca.or_else(|| known.as_ref().and_then(|hub| hub.ca.clone())),
            known,
        })
    }
}

/// A form. The names are safe; of a value, all but unreserved characters are encoded.
fn percent_encoded(fields: &[(&str, &str)]) -> String {
    let mut form = String::new();
    for (name, value) in fields {
        if !form.is_empty() {
            form.push('&');
        }
        form.push_str(name);
        form.push('=');
        for byte in value.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    form.push(char::from(byte));
                }
                _ => form.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    form
}

/// HTTP client for one hub. The rules decide about the proxy: reqwest's own reading of NO_PROXY differs from that of agents.
fn http_client(url: &HubUrl, ca: Option<&str>, rules: &ProxyRules) -> Result<Client, Failure> {
    let client = client_builder(url, ca, rules)?;
    let client = client.redirect(redirect::Policy::none()).build();
    client.map_err(|error| Failure::because(Code::Internal, error))
}

const fn is_about_token(code: Code) -> bool {
    matches!(code, Code::NoToken | Code::BadToken | Code::TokenExpired)
}

async fn read_whole(response: &mut Response) -> Result<Bytes, BoxError> {
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

fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, HubError> {
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
fn error_response(status: StatusCode, body: &[u8]) -> Failure {
    let told = serde_json::from_slice::<Reason>(body).map(Failure::from);
    told.unwrap_or_else(|_| {
        Failure::because(
            Code::HubUnreachable,
            format_args!("the server is not a hub; its response has status {status}"),
        )
    })
}
